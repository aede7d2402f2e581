/**
 * @file The load of a Helios Earth virtual cluster: jobs and GPUs running, pending and idle at each time. It is load, not jobs.
 *
 * Nothing here says when a job came or how long it ran, so nothing can be scheduled; `simulate` refuses such a file and says so.
 * Columns: time (wall time), running_gpu_num, pending_gpu_num, idle_gpu_num, running_job_num, pending_job_num; the others are not read.
 */

import { shown } from "../../domain/values/file-problem.ts";
import { refuse, type Problem, type Refused } from "../../domain/values/problem.ts";
import { amount, readTable, type TableRow } from "./table.ts";
import type { LoadSample, TraceLoad, TraceName } from "./trace.ts";
import { wallTimeMs } from "../../domain/values/wall-time.ts";

const NEEDED = {
  time: ["time"],
  runningGpus: ["running_gpu_num"],
  pendingGpus: ["pending_gpu_num"],
  idleGpus: ["idle_gpu_num"],
  runningJobs: ["running_job_num"],
  pendingJobs: ["pending_job_num"],
};
type Key = keyof typeof NEEDED;

export function readHeliosLoad(text: string, { source }: TraceName): TraceLoad | Refused {
  const table = readTable(text, source, { needed: NEEDED });
  if (table.kind === "refused") return table;
  const badRows = [...table.badRows];
  const samples: LoadSample[] = [];
  for (const row of table.rows) {
    const sample = readSample(row);
    if ("message" in sample) badRows.push(sample);
    else samples.push(sample);
  }
  badRows.sort((a, b) => a.line - b.line);
  if (samples.length === 0) {
    const empty = { line: 1, message: "there is no row", remedy: "give at least one sample" };
    return refuse(source, badRows.length > 0 ? badRows : [empty]);
  }
  samples.sort((a, b) => a.atMs - b.atMs);
  const rows = samples.length + badRows.length;
  return { kind: "load", samples, account: { rows, badRows, leftOut: [], notes: [] } };
}

function readSample({ line, cell }: TableRow<Key>): LoadSample | Problem {
  const atMs = wallTimeMs(cell("time"));
  if (atMs === undefined) {
    const message = `the time is ${shown(cell("time"))}`;
    return { line, message, remedy: "write a real time as 2020-05-01 00:10:00" };
  }
  const keys = ["runningGpus", "pendingGpus", "idleGpus", "runningJobs", "pendingJobs"] as const;
  const counts: Record<(typeof keys)[number], number> = {
    runningGpus: 0,
    pendingGpus: 0,
    idleGpus: 0,
    runningJobs: 0,
    pendingJobs: 0,
  };
  for (const key of keys) {
    const value = amount(
      { line, cell: cell(key) },
      { what: NEEDED[key][0] ?? key, unit: "a count" },
    );
    if (typeof value !== "number") return value;
    counts[key] = value;
  }
  return { atMs, ...counts };
}
