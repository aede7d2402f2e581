/**
 * @file An emulated cluster from a log of nccl-tests: the times it shows at its sizes, the fabric's physics between and beyond them.
 *
 * nccl-tests runs NCCL's own choice with nothing beside it, so what it measures is AUTO without overlap and without a floor. How far the result can be
 * trusted between sizes is measured by leaving sizes out: `heldOutErrors` calibrates on every second size and predicts the others.
 */

import type { NcclRun } from "../../domain/bandwidth/nccl-run.ts";
import { emulatedCluster, type ClusterSpec, type Measured } from "./emulated-cluster.ts";
import type { Fabric } from "./fabric.ts";
import { PAPER_1X8 } from "./paper-clusters.ts";

interface LogPoint {
  readonly bytes: number;
  readonly ms: number;
}

/** Below, a collective is launch latency, which a fabric is not about. */
const LEAST_BYTES = 32 * 1024;

/** Out-of-place times of an all-reduce, ascending by size. */
export function logPoints({ op, rows }: NcclRun): readonly LogPoint[] {
  if (op !== "all_reduce") return [];
  const points = rows.flatMap(({ bytes, outOfPlace }) =>
    outOfPlace !== undefined && bytes >= LEAST_BYTES && outOfPlace.timeUs > 0
      ? [{ bytes, ms: outOfPlace.timeUs / 1_000 }]
      : [],
  );
  return points.sort((a, b) => a.bytes - b.bytes);
}

/** The log's ranks give hosts and GPUs; its largest message gives the bandwidth of the slowest link. */
export function fabricOf({ ranks }: NcclRun, points: readonly LogPoint[]): Fabric | undefined {
  const hosts = new Set(ranks.map(({ host }) => host)).size;
  const largest = points.at(-1);
  if (largest === undefined || hosts === 0 || ranks.length % hosts > 0) return undefined;
  const gbs = ((2 * (ranks.length - 1)) / ranks.length) * (largest.bytes / (largest.ms * 1e6));
  return {
    ...PAPER_1X8.fabric,
    nodes: hosts,
    gpusPerNode: ranks.length / hosts,
    ...(hosts === 1
      ? { nvlink: { ...PAPER_1X8.fabric.nvlink, gbs } }
      : { network: { hopUs: 20, gbs, ringLoss: 1 } }),
  };
}

export function calibratedCluster(
  name: string,
  fabric: Fabric,
  points: readonly LogPoint[],
): ClusterSpec {
  const measured = points.map(({ bytes, ms }): Measured => ({
    bytes,
    hasOverlap: false,
    best: "auto",
    bestMs: ms,
    autoMs: ms,
  }));
  return { ...PAPER_1X8, name, fabric, floorMs: 0, measured };
}

/** Relative errors at the sizes that calibration did not see: every second one, the ends excepted. */
export function heldOutErrors(fabric: Fabric, points: readonly LogPoint[]): readonly number[] {
  const seen = points.filter((_, at) => at % 2 === 0);
  const cluster = emulatedCluster(calibratedCluster("held out", fabric, seen));
  const last = seen.at(-1)?.bytes ?? 0;
  return points
    .filter(({ bytes }, at) => at % 2 === 1 && bytes < last)
    .map(({ bytes, ms }) => cluster.medianMs({ arm: "auto", bytes, hasOverlap: false }) / ms - 1);
}
