/**
 * @file Starts the local ranks of one gang or of one array task, keeps their output, and sees them to their end.
 *
 * The first rank that ends badly stops the others (TERM, grace, KILL), and so does the time limit, counted by a clock that
 * nobody sets. What they leave behind is not looked for here. Loaded by the shim, so it needs nothing but Node.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { performance } from "node:perf_hooks";
import type { LogLimits, RankFailure, RankGroupStatus, RankPlan, RankStatus } from "./launch.ts";
import { identityOf } from "./process-identity.ts";
import { openRankLog } from "./rank-log.ts";

export interface RankGroupPlan {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly ranks: readonly RankPlan[];
  readonly graceMs: number;
  readonly timeLimitMs?: number;
  readonly log: LogLimits;
}

export interface RankGroupPorts {
  /** The folder of a rank's output; made when the rank writes something. */
  logDirOf(rank: number): string;
  /** Whether the agent has told the processes to end: some frameworks take a second TERM as "at once". */
  isTold(): boolean;
  /** The status has changed in a way that another agent should know. */
  onChange(): void;
  /** Every rank has ended and its output is kept. Called once, never before `startRanks` has returned. */
  onEnd(): void;
}

export interface RankGroup {
  status(): RankGroupStatus;
  isRunning(): boolean;
  /** TERM, grace, KILL. */
  end(): void;
  kill(): void;
}

/** Output still in a pipe when its rank ends is waited for this long; a daemon may hold the pipe for ever. */
const DRAIN_MS = 250;
/** A timer cannot be set for longer than 24 days. */
const LONGEST_TIMER_MS = 3_600_000;

interface Rank {
  readonly plan: RankPlan;
  child?: ChildProcess;
  status: RankStatus;
}

export function startRanks(plan: RankGroupPlan, ports: RankGroupPorts): RankGroup {
  const ranks: Rank[] = plan.ranks.map((rank) => ({ plan: rank, status: { rank: rank.rank } }));
  let startedAtMs: number | undefined;
  let failure: RankFailure | undefined;
  let limitAtMs: number | undefined;
  let openStreams = 0;
  let isEnded = false;

  const hasEnded = (rank: Rank): boolean =>
    rank.child === undefined || rank.status.end !== undefined;
  let drainTimer: NodeJS.Timeout | undefined;
  const finish = (): void => {
    if (isEnded) return;
    isEnded = true;
    clearTimeout(limitTimer);
    clearTimeout(killTimer);
    clearTimeout(drainTimer);
    ports.onEnd();
  };
  const finishWhenDone = (): void => {
    if (!ranks.every(hasEnded)) return;
    if (openStreams === 0) finish();
    else drainTimer ??= setTimeout(finish, DRAIN_MS);
  };

  let killTimer: NodeJS.Timeout | undefined;
  const end = (): void => {
    if (killTimer !== undefined) return;
    if (!ports.isTold()) signalGroups("SIGTERM");
    killTimer = setTimeout(() => signalGroups("SIGKILL"), plan.graceMs);
  };
  const signalGroups = (signal: "SIGTERM" | "SIGKILL"): void => {
    for (const { child, status } of ranks) {
      if (child?.pid === undefined || status.end !== undefined) continue;
      try {
        process.kill(-child.pid, signal);
      } catch {
        // Gone between our look and the signal.
      }
    }
  };
  const fail = (found: RankFailure): void => {
    if (failure !== undefined) return;
    failure = found;
    end();
  };

  const start = (rank: Rank): void => {
    const { plan: rankPlan } = rank;
    const log = openRankLog(ports.logDirOf(rankPlan.rank), plan.log);
    const notStarted = (error: NodeJS.ErrnoException): void => {
      delete rank.child;
      const { exitCode, ...found } = startFailure(rankPlan.rank, error, plan);
      rank.status = { ...rank.status, end: { exitCode, atMs: found.atMs } };
      fail({ ...found, exitCode });
      queueMicrotask(finishWhenDone);
    };
    let child;
    try {
      const [file = "", ...args] = plan.command;
      child = spawn(file, args, {
        cwd: plan.cwd,
        env: rankPlan.env,
        detached: true,
        stdio: ["ignore", "pipe", "pipe"],
      });
    } catch (error) {
      notStarted(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    rank.child = child;
    if (child.pid === undefined) {
      child.once("error", notStarted);
      return;
    }
    startedAtMs ??= Date.now();
    const identity = identityOf(child.pid);
    if (identity !== undefined) rank.status = { ...rank.status, process: identity };
    let ownStreams = 2;
    for (const [name, stream] of [
      ["out", child.stdout],
      ["err", child.stderr],
    ] as const) {
      openStreams += 1;
      stream.on("data", (bytes: Buffer) => log.write(name, bytes));
      stream.on("error", () => undefined);
      stream.once("close", () => {
        log.end(name);
        ownStreams -= 1;
        if (ownStreams === 0) log.close();
        openStreams -= 1;
        finishWhenDone();
      });
    }
    child.on("error", () => undefined);
    child.once("exit", (code, signal) => {
      const found = {
        ...(signal === null ? { exitCode: code ?? 0 } : { signal }),
        atMs: Date.now(),
      };
      rank.status = { ...rank.status, end: found };
      if (signal !== null)
        fail({ rank: rankPlan.rank, kind: "signalled", signal, atMs: found.atMs });
      else if (code !== 0)
        fail({ rank: rankPlan.rank, kind: "exited", exitCode: code ?? 0, atMs: found.atMs });
      ports.onChange();
      finishWhenDone();
    });
  };

  let limitTimer: NodeJS.Timeout | undefined;
  const watchLimit = (limitMs: number, sinceMs: number): void => {
    const leftMs = limitMs - (performance.now() - sinceMs);
    if (leftMs > 0) {
      limitTimer = setTimeout(
        () => watchLimit(limitMs, sinceMs),
        Math.min(leftMs, LONGEST_TIMER_MS),
      );
      return;
    }
    if (failure !== undefined || isEnded) return;
    limitAtMs = Date.now();
    end();
    ports.onChange();
  };

  for (const rank of ranks) {
    if (failure !== undefined) break;
    start(rank);
  }
  if (plan.timeLimitMs !== undefined) watchLimit(plan.timeLimitMs, performance.now());
  queueMicrotask(finishWhenDone);

  return {
    status: () => ({
      ...(startedAtMs !== undefined && { startedAtMs }),
      ...(isEnded && {
        endedAtMs: Math.max(...ranks.map((rank) => rank.status.end?.atMs ?? 0)) || Date.now(),
      }),
      ranks: ranks.map((rank) => rank.status),
      ...(failure !== undefined && { failure }),
      ...(limitAtMs !== undefined && { limitAtMs }),
    }),
    isRunning: () => ranks.some((rank) => !hasEnded(rank)),
    end,
    kill: () => signalGroups("SIGKILL"),
  };
}

/** What a shell would answer: 127 for a missing command, 126 for one that may not be executed. */
function startFailure(
  rank: number,
  error: NodeJS.ErrnoException,
  { command, cwd }: RankGroupPlan,
): RankFailure & { readonly exitCode: number } {
  const isMissing = error.code === "ENOENT" || error.code === "ENOTDIR";
  const isForbidden =
    error.code === "EACCES" || error.code === "ENOEXEC" || error.code === "EISDIR";
  const isFolderMissing = isMissing && !existsSync(cwd);
  return {
    rank,
    kind: !isFolderMissing && (isMissing || isForbidden) ? "not-found" : "not-started",
    exitCode: isMissing ? 127 : 126,
    message: isFolderMissing
      ? `the folder ${cwd} does not exist`
      : `${error.code ?? error.message} for ${command[0] ?? ""}`,
    atMs: Date.now(),
  };
}
