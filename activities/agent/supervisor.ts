/**
 * @file Starts the ranks of one launch, keeps their output, and writes down how each ended: all that the shim does.
 *
 * It lives as long as its ranks, whatever happens to the agent, and needs nothing from it: the first rank that ends badly
 * stops the others (TERM, grace, KILL), and so does the time limit, counted by a clock that nobody sets. Orders to stop do
 * not come through here: the agent signals the processes itself, and notes it in `stop.json` first.
 * A shim that is not the first to take the claim does nothing. Needs nothing but Node, so that it starts fast.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { launchFiles, rankDir } from "./launch.ts";
import type {
  Claim,
  LaunchPlan,
  LaunchStatus,
  RankFailure,
  RankPlan,
  RankStatus,
  StopNote,
} from "./launch.ts";
import { identityOf, ownIdentity } from "./process-identity.ts";
import { openRankLog } from "./rank-log.ts";
import { createOnce, readFile, replaceFile } from "./state-files.ts";

/** Output still in a pipe when its rank ends is waited for this long; a daemon may hold the pipe for ever. */
const DRAIN_MS = 250;
/** Ends of ranks that come close together are written down together. */
const GATHER_MS = 20;
const RETRY_WRITE_MS = 500;
/** A timer cannot be set for longer than 24 days. */
const LONGEST_TIMER_MS = 3_600_000;
const DEAF_TO = ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE"] as const;

interface Rank {
  readonly plan: RankPlan;
  child?: ChildProcess;
  status: RankStatus;
}

export function superviseLaunch(dir: string): void {
  const files = launchFiles(dir);
  const plan = readFile<LaunchPlan>(files.plan);
  if (plan === undefined) throw new Error(`${files.plan} is missing or broken`);
  for (const signal of DEAF_TO) process.on(signal, () => undefined);
  const claim: Claim = { kind: "shim", shim: ownIdentity() };
  if (!createOnce(files.claim, claim)) return;

  const ranks: Rank[] = plan.ranks.map((rank) => ({ plan: rank, status: { rank: rank.rank } }));
  let startedAtMs: number | undefined;
  let failure: RankFailure | undefined;
  let limitAtMs: number | undefined;
  let openStreams = 0;
  let isWriteDue = false;
  let isEnded = false;

  const hasEnded = (rank: Rank): boolean =>
    rank.child === undefined || rank.status.end !== undefined;
  const statusNow = (): LaunchStatus => ({
    phase: isEnded ? "ended" : "running",
    ...(startedAtMs !== undefined && { startedAtMs }),
    ...(isEnded && {
      endedAtMs: Math.max(...ranks.map((rank) => rank.status.end?.atMs ?? 0)) || Date.now(),
    }),
    ranks: ranks.map((rank) => rank.status),
    ...(failure !== undefined && { failure }),
    ...(limitAtMs !== undefined && { limitAtMs }),
  });
  const writeStatus = (): void => {
    isWriteDue = false;
    try {
      replaceFile(files.status, statusNow());
    } catch {
      // A full disk: the agent sees the end as soon as there is room.
      setTimeout(writeStatus, RETRY_WRITE_MS);
    }
  };
  const writeSoon = (): void => {
    if (isWriteDue || isEnded) return;
    isWriteDue = true;
    setTimeout(() => {
      if (isWriteDue) writeStatus();
    }, GATHER_MS);
  };
  const finish = (): void => {
    if (isEnded) return;
    isEnded = true;
    clearTimeout(limitTimer);
    clearTimeout(killTimer);
    writeStatus();
  };
  const finishWhenDone = (): void => {
    if (!ranks.every(hasEnded)) return;
    if (openStreams === 0) finish();
    else setTimeout(finish, DRAIN_MS);
  };

  let killTimer: NodeJS.Timeout | undefined;
  const endOthers = (): void => {
    if (killTimer !== undefined) return;
    // Some frameworks take a second TERM as "at once": the agent may have sent the first.
    if (readFile<StopNote>(files.stop)?.termAtMs === undefined) signalGroups("SIGTERM");
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
    endOthers();
  };

  const start = (rank: Rank): void => {
    const { plan: rankPlan } = rank;
    const log = openRankLog(rankDir(dir, rankPlan.rank), plan.log);
    const notStarted = (error: NodeJS.ErrnoException): void => {
      delete rank.child;
      const { exitCode, ...found } = startFailure(rankPlan.rank, error, plan);
      rank.status = { ...rank.status, end: { exitCode, atMs: found.atMs } };
      fail({ ...found, exitCode });
      finishWhenDone();
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
    for (const [name, stream] of [
      ["out", child.stdout],
      ["err", child.stderr],
    ] as const) {
      openStreams += 1;
      stream.on("data", (bytes: Buffer) => log.write(name, bytes));
      stream.on("error", () => undefined);
      stream.once("close", () => {
        log.end(name);
        openStreams -= 1;
        finishWhenDone();
      });
    }
    child.on("error", () => undefined);
    child.once("exit", (code, signal) => {
      const end = { ...(signal === null ? { exitCode: code ?? 0 } : { signal }), atMs: Date.now() };
      rank.status = { ...rank.status, end };
      if (signal !== null) fail({ rank: rankPlan.rank, kind: "signalled", signal, atMs: end.atMs });
      else if (code !== 0)
        fail({ rank: rankPlan.rank, kind: "exited", exitCode: code ?? 0, atMs: end.atMs });
      writeSoon();
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
    endOthers();
    writeSoon();
  };

  if (!existsSync(files.stop)) {
    for (const rank of ranks) {
      if (failure !== undefined) break;
      start(rank);
    }
  }
  if (ranks.some((rank) => !hasEnded(rank))) writeStatus();
  if (plan.timeLimitMs !== undefined) watchLimit(plan.timeLimitMs, performance.now());
  finishWhenDone();
}

/** What a shell would answer: 127 for a missing command, 126 for one that may not be executed. */
function startFailure(
  rank: number,
  error: NodeJS.ErrnoException,
  { command, cwd }: LaunchPlan,
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
