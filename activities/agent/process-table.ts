/**
 * @file Finds every process of a launch, whatever it did to get away: the ranks' groups and sessions, everything below them,
 * and whatever carries the launch's mark in its environment.
 *
 * The mark is inherited over fork, exec and `setsid`, so it also finds a daemon whose parents are long gone. A process that
 * has overwritten its own environment (a changed title does that) is still found by group, session or descent.
 * Cost: a small read for each process of the machine, two for those younger than the shim; about 3 ms for 130 on a busy machine.
 * Elsewhere than on Linux `ps` answers; there the environment of system binaries is not shown, so a daemonised `/bin/sh` may escape.
 */

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { bootId, psRows, PS_OPTIONS, statOf } from "./process-identity.ts";
import type { ProcessIdentity, ProcessStat } from "./process-identity.ts";

export interface Roots {
  /** As it stands in the environment: `NAME=value`. */
  readonly mark: string;
  readonly shim: ProcessIdentity | undefined;
  readonly ranks: readonly ProcessIdentity[];
}

/** The processes of a launch that still run, its shim aside; zombies do not count. Ascending by pid. */
export function membersOf({ mark, shim, ranks }: Roots): readonly ProcessStat[] {
  const rows = new Map(listProcesses().map((row) => [row.pid, row]));
  const isKnown = (identity: ProcessIdentity): boolean =>
    identity.bootId === bootId() && rows.get(identity.pid)?.started === identity.started;
  const leaders = new Set(ranks.filter(isKnown).map((rank) => rank.pid));
  const roots = new Set(leaders);
  if (shim !== undefined && isKnown(shim)) roots.add(shim.pid);
  const marked = markedPids(mark, youngerThan(shim, rows));

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
    .filter(
      (row) => row.pid !== process.pid && row.pid !== shim?.pid && !row.isZombie && belongs(row),
    )
    .sort((a, b) => a.pid - b.pid);
}

function listProcesses(): readonly ProcessStat[] {
  if (process.platform !== "linux") return psRows(["-A"]);
  return readdirSync("/proc").flatMap((name) =>
    /^\d+$/.test(name) ? (statOf(Number(name)) ?? []) : [],
  );
}

/** What ran before the shim cannot have its mark from it; on a busy machine that saves reading most environments. */
function youngerThan(
  shim: ProcessIdentity | undefined,
  rows: ReadonlyMap<number, ProcessStat>,
): ReadonlyMap<number, ProcessStat> {
  // Only Linux says start times as numbers (ticks since the boot).
  if (shim === undefined || process.platform !== "linux" || shim.bootId !== bootId()) return rows;
  const sinceTicks = Number(shim.started);
  return new Map([...rows].filter(([, { started }]) => Number(started) >= sinceTicks));
}

function markedPids(mark: string, rows: ReadonlyMap<number, ProcessStat>): ReadonlySet<number> {
  if (process.platform !== "linux") return markedByPs(mark);
  const entry = Buffer.from(`${mark}\0`);
  return new Set(
    [...rows.keys()].filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`).includes(entry);
      } catch {
        // Ended meanwhile, or another user's: not ours in either case.
        return false;
      }
    }),
  );
}

function markedByPs(mark: string): ReadonlySet<number> {
  let text: string;
  try {
    text = execFileSync("ps", ["-A", "-E", "-ww", "-o", "pid=,command="], PS_OPTIONS);
  } catch {
    return new Set();
  }
  const lines = text.split("\n").filter((line) => `${line} `.includes(` ${mark} `));
  return new Set(lines.map((line) => Number.parseInt(line.trim(), 10)));
}
