/**
 * @file Chooses the demo's jobs from the Philly trace and puts them under one time divisor.
 *
 * The gangs of 2 to 24 GPUs among rows 50,000 to 50,999 (larger ones are left out: the demo's fleet is small),
 * and the one-GPU jobs nearest to any of them in row number, ties to the earlier row, until there are 120. Order
 * of arrival and GPU counts are the trace's own; arrivals and durations are divided by the same number, and
 * durations are then held between a floor and a cap. Cost: one sort and a binary search per one-GPU job.
 */

import type { PhillyRow } from "./parse-philly.ts";

export interface DemoWorkload {
  /** By arrival, ties by row. */
  readonly jobs: readonly DemoJob[];
  readonly divisor: number;
  readonly gangCount: number;
  /** Jobs whose divided duration was above the cap. */
  readonly cappedCount: number;
  /** Jobs whose divided duration was below the floor. */
  readonly flooredCount: number;
  readonly lastArrivalMs: number;
  /** Sum over jobs of GPUs × duration. */
  readonly gpuSeconds: number;
}

export interface DemoJob {
  /** 0-based place in the order of arrival. */
  readonly index: number;
  /** Row of the trace. */
  readonly row: number;
  /** The trace's virtual cluster. */
  readonly tenant: string;
  /** After the first job's arrival. */
  readonly arrivalMs: number;
  readonly gpus: number;
  readonly durationMs: number;
  readonly isCapped: boolean;
}

export interface DemoOptions {
  /** Trace time per demo time. */
  readonly divisor: number;
  readonly jobCount: number;
  readonly firstRow: number;
  readonly lastRow: number;
  readonly maxGangGpus: number;
  readonly maxDurationMs: number;
  readonly minDurationMs: number;
}

export const DEMO_DEFAULTS: DemoOptions = Object.freeze({
  /** The chosen jobs arrive over 77,734 s of trace time: 35 s of demo. */
  divisor: 2_220,
  jobCount: 120,
  firstRow: 50_000,
  lastRow: 50_999,
  /** Three of four 8-GPU hosts: the widest gang that does not need a whole cluster. */
  maxGangGpus: 24,
  /** Long enough to watch, short enough that the longest jobs of the trace (months) do not hold the demo. */
  maxDurationMs: 15_000,
  /** About the time of a process that starts, writes a checkpoint and exits. */
  minDurationMs: 200,
});

export function demoJobs(
  rows: readonly PhillyRow[],
  options: Partial<DemoOptions> = {},
): DemoWorkload {
  const chosen = { ...DEMO_DEFAULTS, ...options };
  const { divisor, minDurationMs, maxDurationMs } = chosen;
  const selected = selectRows(rows, chosen);
  const startMs = selected[0]?.submittedMs ?? 0;
  const jobs = selected.map((row, index) => {
    const dividedMs = row.durationMs / divisor;
    return {
      index,
      row: row.row,
      tenant: row.virtualCluster,
      arrivalMs: Math.round((row.submittedMs - startMs) / divisor),
      gpus: row.gpus,
      durationMs: Math.round(Math.min(maxDurationMs, Math.max(minDurationMs, dividedMs))),
      isCapped: dividedMs > maxDurationMs,
    };
  });
  return {
    jobs,
    divisor,
    gangCount: jobs.filter((job) => job.gpus > 1).length,
    cappedCount: jobs.filter((job) => job.isCapped).length,
    flooredCount: selected.filter((row) => row.durationMs / divisor < minDurationMs).length,
    lastArrivalMs: jobs.at(-1)?.arrivalMs ?? 0,
    gpuSeconds: jobs.reduce((sum, job) => sum + (job.gpus * job.durationMs) / 1000, 0),
  };
}

function selectRows(rows: readonly PhillyRow[], options: DemoOptions): PhillyRow[] {
  const { firstRow, lastRow, maxGangGpus, jobCount } = options;
  const window = rows.filter(({ row }) => row >= firstRow && row <= lastRow);
  const gangs = window
    .filter(({ gpus }) => gpus > 1 && gpus <= maxGangGpus)
    .sort(byArrival)
    .slice(0, jobCount);
  const gangRows = gangs.map(({ row }) => row).sort((a, b) => a - b);
  const neighbours = window
    .filter(({ gpus }) => gpus === 1)
    .map((row) => ({ row, distance: distanceTo(gangRows, row.row) }))
    .sort((a, b) => a.distance - b.distance || a.row.row - b.row.row)
    .slice(0, jobCount - gangs.length)
    .map(({ row }) => row);
  return [...gangs, ...neighbours].sort(byArrival);
}

/** Rows to the nearest of `sorted`; infinite when it is empty. */
function distanceTo(sorted: readonly number[], row: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? row) < row) low = middle + 1;
    else high = middle;
  }
  const above = sorted[low] ?? Infinity;
  const below = sorted[low - 1] ?? -Infinity;
  return Math.min(above - row, row - below);
}

function byArrival(a: PhillyRow, b: PhillyRow): number {
  return a.submittedMs - b.submittedMs || a.row - b.row;
}
