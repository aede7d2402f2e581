/**
 * @file One run of an nccl-tests program: its ranks, its measurements, and how it ended.
 *
 * Bandwidths are GB/s (10^9 bytes), times are microseconds, sizes are bytes, as the program prints them.
 */

import type { Problem } from "../values/problem.ts";

export interface NcclRun {
  /** The program without `_perf`, e.g. `all_reduce`; `unknown` when the text does not say. */
  readonly op: string;
  /** First line of the run in its text. */
  readonly line: number;
  readonly params?: NcclParams;
  /** Ascending by rank; may be a part of them where the text leaves lines out. */
  readonly ranks: readonly NcclRank[];
  readonly rows: readonly NcclRow[];
  /** As printed: the mean of all bus bandwidths, out of place and in place. */
  readonly avgBusBwGBs?: number;
  readonly outOfBounds?: OutOfBounds;
  /** The text leaves lines out with `...`. */
  readonly isElided: boolean;
  /** What NCCL, CUDA or the launcher reported when the run broke; rows before it are good. */
  readonly failure?: Failure;
}

export interface NcclParams {
  readonly threads: number;
  readonly gpusPerThread: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly step: { readonly kind: "factor" | "bytes"; readonly by: number };
  readonly warmupIterations?: number;
  readonly iterations?: number;
  readonly aggregatedIterations?: number;
  readonly isValidated?: boolean;
  readonly graphLaunches?: number;
}

export interface NcclRank {
  readonly rank: number;
  readonly group?: number;
  readonly pid?: number;
  readonly host: string;
  /** CUDA device index in its process. */
  readonly device: number;
  /** PCI bus id as printed: `0x07` or `0000:1b:00`. */
  readonly busId?: string;
  /** e.g. `NVIDIA H100 80GB HBM3`. */
  readonly name: string;
}

export interface NcclRow {
  readonly bytes: number;
  readonly count: number;
  readonly dtype: string;
  /** Absent where the operation reduces nothing. */
  readonly redop?: string;
  /** Absent where the operation has no root. */
  readonly root?: number;
  /** At least one of the two placements was run. */
  readonly outOfPlace?: NcclFigures;
  readonly inPlace?: NcclFigures;
}

export interface NcclFigures {
  readonly timeUs: number;
  readonly algbwGBs: number;
  readonly busbwGBs: number;
  /** Wrong values found (old versions: largest error); absent when not checked. */
  readonly wrong?: number;
}

export interface OutOfBounds {
  readonly count: number;
  readonly isOk: boolean;
}

export interface Failure {
  readonly line: number;
  readonly text: string;
}

/** Runs, or a refusal; warnings are for readers of the figures. */
export interface ParsedNcclTests {
  readonly kind: "parsed";
  readonly runs: readonly NcclRun[];
  readonly warnings: readonly Problem[];
}

/** Mean of all bus bandwidths of the rows, as the footer has it; `undefined` without rows. */
export function meanBusBwGBs(run: NcclRun): number | undefined {
  const figures = run.rows
    .flatMap(({ outOfPlace, inPlace }) => [outOfPlace ?? [], inPlace ?? []])
    .flat();
  if (figures.length === 0) return undefined;
  return figures.reduce((sum, { busbwGBs }) => sum + busbwGBs, 0) / figures.length;
}

/**
 * The bus bandwidth of the row whose message is nearest to `bytes` (by ratio, ties to the smaller), the
 * better of its two placements; `undefined` without a row of positive size.
 */
export const busBwNearGBs = (run: NcclRun, bytes: number): number | undefined =>
  busBwNear(run, bytes)?.gbs;

/** The same with the size that it is of. */
export function busBwNear(
  run: NcclRun,
  bytes: number,
): { readonly gbs: number; readonly bytes: number } | undefined {
  let best: { readonly distance: number; readonly gbs: number; readonly bytes: number } | undefined;
  for (const row of [...run.rows].sort((a, b) => a.bytes - b.bytes)) {
    if (row.bytes <= 0) continue;
    const distance = Math.abs(Math.log(row.bytes / bytes));
    if (best !== undefined && distance >= best.distance) continue;
    const gbs = Math.max(row.outOfPlace?.busbwGBs ?? 0, row.inPlace?.busbwGBs ?? 0);
    best = { distance, gbs, bytes: row.bytes };
  }
  return best;
}

/** The operation in the name of a file or program, e.g. `n8-all_gather-env1.txt`; `undefined` without one. */
export function opOfName(name: string): string | undefined {
  return /(?:^|[^a-z])(all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all|sendrecv|broadcast|hypercube|gather|scatter|reduce)(?![a-z])/i
    .exec(name)?.[1]
    ?.toLowerCase()
    .replace(/^all[_-]?(?=reduce|gather)/, "all_")
    .replace(/^reduce[_-]?(?=scatter)/, "reduce_")
    .replace(/^all[_-]?to[_-]?all$/, "alltoall");
}
