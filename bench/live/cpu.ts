/** @file What processor time the processes of a world have used, so that a figure can say where it went. Linux only. */

import { readdirSync, readFileSync } from "node:fs";
import type { BenchWorld } from "./world.ts";

/** Milliseconds of processor time by process; what it has started (shims and ranks of an agent) is a row of its own. */
type CpuMs = ReadonlyMap<string, number>;

/** The kernel counts in hundredths of a second for every user of /proc. */
const MS_PER_TICK = 10;

export function cpuNow({ processes, serverPid }: BenchWorld): CpuMs {
  const pids = new Map(processes.pids());
  if (serverPid !== undefined) pids.set("server", serverPid);
  // Those that run are rows already.
  const [own, ended] = cpuMsOf(process.pid);
  const client = [["client", own] as const, ["client's children", ended] as const];
  return new Map([...[...pids].flatMap(([name, pid]) => rowsOf(name, pid)), ...client]);
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
export const childrenCpuMs = (): number => cpuMsOf(process.pid)[1];

function rowsOf(name: string, pid: number): readonly (readonly [string, number])[] {
  const [own] = cpuMsOf(pid);
  return [
    [name, own],
    [`${name}'s children`, treeCpuMs(pid) - own],
  ];
}

/** Of a process and of all that it has started, those that run included: an agent's supervisors are children of its starter, which stays. */
export const treeCpuMs = (pid: number): number =>
  cpuMsOf(pid).reduce((sum, ms) => sum + ms) +
  childrenOf(pid).reduce((sum, child) => sum + treeCpuMs(child), 0);

/** Of a process, and of the children that it has waited for; zero of one that has gone. */
function cpuMsOf(pid: number): readonly [own: number, ended: number] {
  let text: string;
  try {
    text = readFileSync(`/proc/${String(pid)}/stat`, "latin1");
  } catch {
    return [0, 0];
  }
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const ms = (at: number): number => Number(fields[at] ?? 0) * MS_PER_TICK;
  return [ms(11) + ms(12), ms(13) + ms(14)];
}

/** The pids of those that run; none of a process that has gone. */
export function childrenOf(pid: number): readonly number[] {
  try {
    return readdirSync(`/proc/${String(pid)}/task`).flatMap((task) => {
      const text = readFileSync(`/proc/${String(pid)}/task/${task}/children`, "latin1").trim();
      return text === "" ? [] : text.split(" ").map(Number);
    });
  } catch {
    return [];
  }
}
