/** @file What processor time the processes of a world have used, so that a figure can say where it went. Linux only. */

import { readFileSync } from "node:fs";
import type { BenchWorld } from "./world.ts";

/** Milliseconds of processor time by process; what a process has waited for (shims and ranks of an agent) is a row of its own. */
type CpuMs = ReadonlyMap<string, number>;

/** The kernel counts in hundredths of a second for every user of /proc. */
const MS_PER_TICK = 10;

export function cpuNow({ processes, serverPid }: BenchWorld): CpuMs {
  const pids = new Map(processes.pids());
  if (serverPid !== undefined) pids.set("server", serverPid);
  pids.set("client", process.pid);
  return new Map([...pids].flatMap(([name, pid]) => rowsOf(name, pid)));
}

/** What was used since `before`, for each of `count` jobs. */
export function cpuEach(
  before: CpuMs,
  after: CpuMs,
  count: number,
): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...after].flatMap(([name, ms]) => {
      const each = (ms - (before.get(name) ?? 0)) / count;
      return each > 0 ? [[name, Number(each.toFixed(2))] as const] : [];
    }),
  );
}

/** Processor time of all processes that this one has started and that have ended. */
export const childrenCpuMs = (): number =>
  new Map(rowsOf("own", process.pid)).get("own's children") ?? 0;

function rowsOf(name: string, pid: number): readonly (readonly [string, number])[] {
  let text: string;
  try {
    text = readFileSync(`/proc/${String(pid)}/stat`, "latin1");
  } catch {
    return [];
  }
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const ticks = (at: number): number => Number(fields[at] ?? 0);
  return [
    [name, (ticks(11) + ticks(12)) * MS_PER_TICK],
    [`${name}'s children`, (ticks(13) + ticks(14)) * MS_PER_TICK],
  ];
}
