/**
 * @file Starts the local ranks of one gang or of one array task, keeps their output, and sees them to their end.
 *
 * The first rank that ends badly stops the others (TERM, grace, KILL), and so does the time limit, counted by a monotonic clock.
 * Processes that the ranks leave behind are not looked for here. Loaded by the shim, so it needs nothing but Node.
 */

import { groupsOf, type Container } from "../containment/container.ts";
import type {
  LogLimits,
  RankFailure,
  RankGroupStatus,
  RankPlan,
  RankStatus,
} from "../folder/launch-files.ts";
import { identityIn } from "../ports/processes.ts";
import type { System } from "../ports/system.ts";
import { openRankLog, type RankLog } from "./rank-log.ts";

export interface RankGroupPlan {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly ranks: readonly RankPlan[];
  readonly graceMs: number;
  readonly timeLimitMs?: number;
  readonly log: LogLimits;
  readonly container: Container;
}

export interface RankGroupPorts {
  /** The folder of a rank's output; made when the rank writes something. */
  logDirOf(rank: number): string;
  /** Whether the agent has told the processes to end: some frameworks take a second TERM as "at once". */
  isNotified(): boolean;
  /** The status has changed in a way that another agent should know. */
  onChange(): void;
  /** Every rank has ended and its output is kept. Called once, never before `startRanks` has returned. */
  onEnd(): void;
}

export interface RankGroup {
  status(): RankGroupStatus;
  isRunning(): boolean;
  /** Call at the end: says in the logs what the disk has not taken before. */
  tellLosses(): void;
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
  /** False before the start, and from the moment at which the start is known to have failed. */
  isStarted: boolean;
  pid?: number;
  status: RankStatus;
}

export function startRanks(
  plan: RankGroupPlan,
  ports: RankGroupPorts,
  { files, processes, clock }: System,
): RankGroup {
  const ranks: Rank[] = plan.ranks.map((rank) => ({
    plan: rank,
    isStarted: false,
    status: { rank: rank.rank },
  }));
  let startedAtMs: number | undefined;
  let failure: RankFailure | undefined;
  let limitAtMs: number | undefined;
  const logs: RankLog[] = [];
  let openStreams = 0;
  let isEnded = false;

  const hasEnded = (rank: Rank): boolean => !rank.isStarted || rank.status.end !== undefined;
  /** Call off the timers that are set. */
  let endDrain: (() => void) | undefined;
  let endGrace: (() => void) | undefined;
  let endLimit: (() => void) | undefined;
  const finish = (): void => {
    if (isEnded) return;
    isEnded = true;
    endLimit?.();
    endGrace?.();
    endDrain?.();
    ports.onEnd();
  };
  const finishWhenDone = (): void => {
    if (!ranks.every(hasEnded)) return;
    if (openStreams === 0) finish();
    else endDrain ??= clock.after(DRAIN_MS, finish);
  };

  const end = (): void => {
    if (endGrace !== undefined) return;
    if (!ports.isNotified()) signalGroups("SIGTERM");
    endGrace = clock.after(plan.graceMs, () => signalGroups("SIGKILL"));
  };
  const signalGroups = (signal: "SIGTERM" | "SIGKILL"): void => {
    for (const { pid, status } of ranks) {
      if (pid !== undefined && status.end === undefined) processes.signalGroup(pid, signal);
    }
  };
  const fail = (found: RankFailure): void => {
    if (failure !== undefined) return;
    failure = found;
    end();
  };

  const start = (rank: Rank): void => {
    const { plan: rankPlan } = rank;
    const log = openRankLog(files, ports.logDirOf(rankPlan.rank), plan.log);
    logs.push(log);
    const notStarted = (error: Error & { readonly code?: string }): void => {
      rank.isStarted = false;
      const { exitCode, ...found } = startFailure(rankPlan.rank, error, {
        plan,
        hasCwd: files.stat(plan.cwd) !== undefined,
        atMs: clock.nowMs(),
      });
      rank.status = { ...rank.status, end: { exitCode, atMs: found.atMs } };
      fail({ ...found, exitCode });
      queueMicrotask(finishWhenDone);
    };
    let ownStreams = 2;
    let pid: number | undefined;
    try {
      pid = processes.start({
        command: plan.command,
        cwd: plan.cwd,
        env: rankPlan.env,
        joins: groupsOf(plan.container),
        output: {
          onOutput: (name, bytes) => log.write(name, bytes),
          onClosed: (name) => {
            log.end(name);
            ownStreams -= 1;
            if (ownStreams === 0) log.close();
            openStreams -= 1;
            finishWhenDone();
          },
        },
        onNotStarted: notStarted,
        onEnd: (ended) => {
          const atMs = clock.nowMs();
          rank.status = { ...rank.status, end: { ...ended, atMs } };
          const { rank: number } = rankPlan;
          if ("signal" in ended) fail({ rank: number, kind: "signalled", ...ended, atMs });
          else if (ended.exitCode !== 0) fail({ rank: number, kind: "exited", ...ended, atMs });
          ports.onChange();
          finishWhenDone();
        },
      });
    } catch (error) {
      notStarted(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    rank.isStarted = true;
    if (pid === undefined) return;
    rank.pid = pid;
    openStreams += ownStreams;
    startedAtMs ??= clock.nowMs();
    const identity = identityIn(processes, pid);
    if (identity !== undefined) rank.status = { ...rank.status, process: identity };
  };

  const watchLimit = (limitMs: number, sinceMs: number): void => {
    const leftMs = limitMs - (clock.elapsedMs() - sinceMs);
    if (leftMs > 0) {
      endLimit = clock.after(Math.min(leftMs, LONGEST_TIMER_MS), () =>
        watchLimit(limitMs, sinceMs),
      );
      return;
    }
    if (failure !== undefined || isEnded) return;
    limitAtMs = clock.nowMs();
    end();
    ports.onChange();
  };

  for (const rank of ranks) {
    if (failure !== undefined) break;
    start(rank);
  }
  if (plan.timeLimitMs !== undefined) watchLimit(plan.timeLimitMs, clock.elapsedMs());
  queueMicrotask(finishWhenDone);

  return {
    status: () => ({
      ...(startedAtMs !== undefined && { startedAtMs }),
      ...(isEnded && {
        endedAtMs: Math.max(...ranks.map((rank) => rank.status.end?.atMs ?? 0)) || clock.nowMs(),
      }),
      ranks: ranks.map((rank) => rank.status),
      ...(failure !== undefined && { failure }),
      ...(limitAtMs !== undefined && { limitAtMs }),
    }),
    tellLosses: () => {
      for (const log of logs) log.tellLoss();
    },
    isRunning: () => ranks.some((rank) => !hasEnded(rank)),
    end,
    kill: () => signalGroups("SIGKILL"),
  };
}

interface StartFacts {
  readonly plan: RankGroupPlan;
  readonly hasCwd: boolean;
  readonly atMs: number;
}

/** The exit codes of a shell: 127 for a missing command, 126 for one that may not be executed. */
function startFailure(
  rank: number,
  error: Error & { readonly code?: string },
  { plan: { command, cwd }, hasCwd, atMs }: StartFacts,
): RankFailure & { readonly exitCode: number } {
  const isMissing = error.code === "ENOENT" || error.code === "ENOTDIR";
  const isForbidden =
    error.code === "EACCES" || error.code === "ENOEXEC" || error.code === "EISDIR";
  const isFolderMissing = isMissing && !hasCwd;
  return {
    rank,
    kind: !isFolderMissing && (isMissing || isForbidden) ? "not-found" : "not-started",
    exitCode: isMissing ? 127 : 126,
    message: isFolderMissing
      ? `the folder ${cwd} does not exist`
      : `${error.code ?? error.message} for ${command[0] ?? ""}`,
    atMs,
  };
}
