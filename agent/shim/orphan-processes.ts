/**
 * @file Kills the processes that an ended array task has left behind, before its GPUs go to the next one: daemons, `setsid` or not.
 *
 * They are found as the processes of a launch are (`launch-processes.ts`): by the task's mark, its ranks' groups and sessions, and descent.
 * Hundreds of tasks may end in a second, so the owner of each process is remembered from look to look: only new pids are read. Looks
 * take a quarter of a processor at most. A process that gets away here is found at the end of the batch.
 * Cost: about 0.1 ms a look and 50 µs a new process. Elsewhere than on Linux each look asks `ps` for everything.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { TASK_MARK, taskMark } from "../folder/launch-files.ts";
import type { Processes, ProcessIdentity, SingleLook } from "../ports/processes.ts";
import type { System } from "../ports/system.ts";
import { membersOf } from "../runs/launch-processes.ts";

export interface Orphans {
  /** Records the task of these processes, as soon as they run. */
  note(task: number, ranks: readonly ProcessIdentity[]): void;
  /** Resolves when no process of the task is left. */
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

export function watchOrphans(launchDir: string, { processes, clock }: System): Orphans {
  const ranksOf = new Map<number, readonly ProcessIdentity[]>();
  const waiting = new Map<number, () => void>();
  const { single } = processes;
  const membersNow =
    single === undefined
      ? wholeLook(launchDir, ranksOf, processes)
      : rememberingLook(launchDir, ranksOf, { processes, single, nowMs: clock.elapsedMs });
  let isLookDue = false;
  let restUntilMs = 0;

  const lookIn = (leastMs: number): void => {
    if (isLookDue || waiting.size === 0) return;
    isLookDue = true;
    clock.after(Math.max(leastMs, restUntilMs - clock.elapsedMs()), look);
  };
  const look = (): void => {
    isLookDue = false;
    const startCpuMs = processes.cpuMs();
    const left = membersNow([...waiting.keys()]);
    for (const { pid } of left) processes.signal(pid, "SIGKILL");
    const busy = new Set(left.map(({ task }) => task));
    // By processor time: on a busy machine a look lasts long without costing more.
    restUntilMs = clock.elapsedMs() + REST_SHARE * (processes.cpuMs() - startCpuMs);
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

interface LookPorts {
  readonly processes: Processes;
  readonly single: SingleLook;
  readonly nowMs: () => number;
}

function rememberingLook(
  launchDir: string,
  ranksOf: RanksOf,
  { processes, single, nowMs: now }: LookPorts,
): Look {
  const mark = Buffer.from(`${TASK_MARK}=${taskMark(launchDir, 0).slice(0, -1)}`);
  /** The task of each process; `other` for one that belongs to no task. */
  let known = new Map<number, number | "other">();
  let knownAtMs = -Infinity;

  /** Undefined for one that has ended, or is just being started by exec and shows no environment. */
  const ownerOf = (pid: number, leaders: ReadonlyMap<number, number>) => {
    const stat = processes.stat(pid);
    if (stat === undefined || stat.isZombie) return undefined;
    const marked = markedTask(single.environment(pid), mark);
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
    const nowMs = now();
    const before = nowMs - knownAtMs < MEMORY_MS ? known : new Map<number, number | "other">();
    const leaders = new Map(
      [...ranksOf].flatMap(([task, ranks]) => ranks.map(({ pid }) => [pid, task] as const)),
    );
    known = new Map();
    knownAtMs = nowMs;
    for (const pid of single.pids()) {
      const owner = before.get(pid) ?? ownerOf(pid, leaders);
      if (owner !== undefined) known.set(pid, owner);
    }
    const wanted = new Set(tasks);
    return [...known].flatMap(([pid, task]) =>
      task !== "other" && wanted.has(task) && runs(processes, pid) ? [{ task, pid }] : [],
    );
  };
}

const wholeLook =
  (launchDir: string, ranksOf: RanksOf, processes: Processes): Look =>
  (tasks) =>
    tasks.flatMap((task) =>
      membersOf(processes, {
        mark: `${TASK_MARK}=${taskMark(launchDir, task)}`,
        shim: undefined,
        ranks: ranksOf.get(task) ?? [],
      }).map(({ pid }) => ({ task, pid })),
    );

function markedTask(environ: Buffer | undefined, mark: Buffer): number | "none" | "empty" {
  if (environ === undefined) return "none";
  if (environ.length === 0) return "empty";
  const at = environ.indexOf(mark);
  if (at < 0) return "none";
  const end = environ.indexOf(0, at);
  return Number(environ.toString("latin1", at + mark.length, end < 0 ? undefined : end));
}

function runs(processes: Processes, pid: number): boolean {
  const stat = processes.stat(pid);
  return stat !== undefined && !stat.isZombie;
}
