/**
 * @file Finds every process of a launch, also one that tried to get away: the members of its group where the kernel keeps one, the ranks'
 * process groups and sessions, their descendants, and each process that carries the launch's mark in its environment.
 *
 * The mark is inherited over fork, exec and `setsid`, so it also finds a daemon whose parents are long gone. A process that
 * has overwritten its own environment (a changed title does that) is still found by group, session or descent.
 * Cost: one look at all processes of the machine, see `node-processes.ts`. Loaded by the shim, so it needs nothing but Node.
 */

import type { Processes, ProcessIdentity, ProcessStat } from "../ports/processes.ts";

export interface Roots {
  /** As it stands in the environment: `NAME=value`. */
  readonly mark: string;
  readonly shim: ProcessIdentity | undefined;
  readonly ranks: readonly ProcessIdentity[];
  /** The pids in the launch's group, where the kernel keeps one. */
  readonly grouped?: readonly number[];
}

/** The processes of a launch that still run, its shim aside; zombies do not count. Ascending by pid. */
export function membersOf(
  processes: Processes,
  { mark, shim, ranks, grouped = [] }: Roots,
): readonly ProcessStat[] {
  const bootId = processes.bootId();
  // What is older than the supervisor descends from nothing of the launch, and can only have been put into its group.
  const rows = new Map(processes.all(shim).map((row) => [row.pid, row]));
  for (const pid of grouped) {
    const row = rows.has(pid) ? undefined : processes.stat(pid);
    if (row !== undefined) rows.set(pid, row);
  }
  const isKnown = (identity: ProcessIdentity): boolean =>
    identity.bootId === bootId && rows.get(identity.pid)?.started === identity.started;
  const leaders = new Set(ranks.filter(isKnown).map((rank) => rank.pid));
  const roots = new Set([...leaders, ...grouped]);
  if (shim !== undefined && isKnown(shim)) roots.add(shim.pid);
  const marked = processes.marked(mark, rows, shim);
  const ownPid = processes.own().pid;

  const verdicts = new Map<number, boolean>();
  const belongs = (row: ProcessStat): boolean => {
    const known = verdicts.get(row.pid);
    if (known !== undefined) return known;
    // Set before the walk to the parent: pids read at different moments could form a circle.
    verdicts.set(row.pid, false);
    const parent = rows.get(row.ppid);
    const verdict =
      marked.has(row.pid) ||
      roots.has(row.pid) ||
      leaders.has(row.pgid) ||
      leaders.has(row.sid) ||
      (parent !== undefined && belongs(parent));
    verdicts.set(row.pid, verdict);
    return verdict;
  };
  return [...rows.values()]
    .filter((row) => row.pid !== ownPid && row.pid !== shim?.pid && !row.isZombie && belongs(row))
    .sort((a, b) => a.pid - b.pid);
}
