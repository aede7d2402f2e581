/**
 * @file Kills what an ended array task has left behind, before its GPUs go to the next one: daemons, `setsid` or not.
 *
 * Found as the processes of a launch are (`process-table.ts`): by the task's mark, its ranks' groups and sessions, and descent.
 * Tasks end by the hundred a second, so whose a process is gets remembered from look to look: only new pids are read. Looks
 * take a quarter of a processor at most. What gets away here is found at the end of the batch.
 * Cost: about 0.1 ms a look and 50 µs a new process. Elsewhere than on Linux each look asks `ps` for everything.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { readdirSync, readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { TASK_MARK, taskMark } from "./launch.ts";
import { statOf, type ProcessIdentity } from "./process-identity.ts";
import { membersOf } from "./process-table.ts";

export interface Leftovers {
  /** Says whose processes these are, as soon as they run. */
  note(task: number, ranks: readonly ProcessIdentity[]): void;
  /** Resolves when nothing of the task is left. */
  clear(task: number): Promise<void>;
}

const KILLED_LOOK_MS = 10;
/** Rest after a look, in looks. */
const REST_SHARE = 3;
/** No pid comes round again within this time: that takes tens of thousands of starts. */
const MEMORY_MS = 1_000;
/** The parent of the kernel's own threads. */
const KTHREADD = 2;

/** The processes of these tasks that still run. */
type Look = (
  tasks: readonly number[],
) => readonly { readonly task: number; readonly pid: number }[];
type RanksOf = ReadonlyMap<number, readonly ProcessIdentity[]>;

export function watchLeftovers(launchDir: string): Leftovers {
  const ranksOf = new Map<number, readonly ProcessIdentity[]>();
  const waiting = new Map<number, () => void>();
  const membersNow =
    process.platform === "linux"
      ? rememberingLook(launchDir, ranksOf)
      : wholeLook(launchDir, ranksOf);
  let isLookDue = false;
  let restUntilMs = 0;

  const lookIn = (leastMs: number): void => {
    if (isLookDue || waiting.size === 0) return;
    isLookDue = true;
    setTimeout(look, Math.max(leastMs, restUntilMs - performance.now()));
  };
  const look = (): void => {
    isLookDue = false;
    const startCpuMs = cpuMs();
    const left = membersNow([...waiting.keys()]);
    for (const { pid } of left) kill(pid);
    const busy = new Set(left.map(({ task }) => task));
    // By processor time: on a busy machine a look lasts long without costing more.
    restUntilMs = performance.now() + REST_SHARE * (cpuMs() - startCpuMs);
    for (const [task, done] of [...waiting]) {
      if (busy.has(task)) continue;
      waiting.delete(task);
      ranksOf.delete(task);
      done();
    }
    lookIn(KILLED_LOOK_MS);
  };
  return {
    note: (task, ranks) => {
      ranksOf.set(task, ranks);
    },
    clear: (task) =>
      new Promise((resolve) => {
        waiting.set(task, resolve);
        lookIn(0);
      }),
  };
}

function rememberingLook(launchDir: string, ranksOf: RanksOf): Look {
  const mark = Buffer.from(`${TASK_MARK}=${taskMark(launchDir, 0).slice(0, -1)}`);
  /** The task of each process, or that it is none of ours. */
  let known = new Map<number, number | "other">();
  let knownAtMs = -Infinity;

  /** Undefined for one that has ended, or is just being started by exec and shows no environment. */
  const ownerOf = (pid: number, leaders: ReadonlyMap<number, number>) => {
    const stat = statOf(pid);
    if (stat === undefined || stat.isZombie) return undefined;
    const marked = markedTask(pid, mark);
    if (typeof marked === "number") return marked;
    const parent = known.get(stat.ppid);
    const task =
      leaders.get(pid) ??
      leaders.get(stat.pgid) ??
      leaders.get(stat.sid) ??
      (parent === "other" ? undefined : parent);
    if (task !== undefined) return task;
    return marked === "empty" && stat.ppid !== KTHREADD ? undefined : "other";
  };

  return (tasks) => {
    const nowMs = performance.now();
    const before = nowMs - knownAtMs < MEMORY_MS ? known : new Map<number, number | "other">();
    const leaders = new Map(
      [...ranksOf].flatMap(([task, ranks]) => ranks.map(({ pid }) => [pid, task] as const)),
    );
    known = new Map();
    knownAtMs = nowMs;
    for (const pid of pidsNow()) {
      const owner = before.get(pid) ?? ownerOf(pid, leaders);
      if (owner !== undefined) known.set(pid, owner);
    }
    const wanted = new Set(tasks);
    return [...known].flatMap(([pid, task]) =>
      task !== "other" && wanted.has(task) && runs(pid) ? [{ task, pid }] : [],
    );
  };
}

const wholeLook =
  (launchDir: string, ranksOf: RanksOf): Look =>
  (tasks) =>
    tasks.flatMap((task) =>
      membersOf({
        mark: `${TASK_MARK}=${taskMark(launchDir, task)}`,
        shim: undefined,
        ranks: ranksOf.get(task) ?? [],
      }).map(({ pid }) => ({ task, pid })),
    );

/** Ascending: a parent mostly comes before its children. */
const pidsNow = (): readonly number[] =>
  readdirSync("/proc").flatMap((name) =>
    /^\d+$/.test(name) && Number(name) !== process.pid ? [Number(name)] : [],
  );

function markedTask(pid: number, mark: Buffer): number | "none" | "empty" {
  let environ: Buffer;
  try {
    environ = readFileSync(`/proc/${pid}/environ`);
  } catch {
    // Ended meanwhile, or another user's: not ours in either case.
    return "none";
  }
  if (environ.length === 0) return "empty";
  const at = environ.indexOf(mark);
  if (at < 0) return "none";
  const end = environ.indexOf(0, at);
  return Number(environ.toString("latin1", at + mark.length, end < 0 ? undefined : end));
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

function runs(pid: number): boolean {
  const stat = statOf(pid);
  return stat !== undefined && !stat.isZombie;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself.
  }
}
