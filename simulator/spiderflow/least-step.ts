/**
 * @file Bounds below a step's time, so that splits that cannot be the shortest are not predicted.
 *
 * Compute: the model's work evenly shared out, with the bubble of a pipeline of m micro-batches and p stages, (m + p − 1) / m. Gradients: a stage whose k
 * replicas lie on several hosts passes 2(k − 1)/k times its bytes over the fabric, and over the widest way between clusters where they lie in several; it may
 * share both with others. Both are terms of `step-time.ts` with what slows them down left out. Cost: O(GPUs), no allocation.
 */

import { MODEL_FLOP_SHARE } from "../../planning/parallelism/models.ts";
import type { Unit } from "../../planning/parallelism/site.ts";
import { PARAMETER_BYTES } from "../../planning/parallelism/framework.ts";
import type { LayerSums } from "../../planning/parallelism/split.ts";

/** A host's cluster by number, and the fastest that any way of a kind is; GB/s. */
export interface WaySpeeds {
  readonly clusterOf: Int32Array;
  readonly clusters: number;
  readonly fabricGbs: number;
  readonly widestGbs: number;
}

/** Milliseconds of compute on so many GPUs. */
export const leastComputeMs = (
  { flops }: LayerSums,
  { batch, gpus, teraflops }: Readonly<Record<"batch" | "gpus" | "teraflops", number>>,
): number => (3 * (flops.at(-1) ?? 0) * batch) / (gpus * teraflops * MODEL_FLOP_SHARE * 1e9);

interface Grown {
  readonly stages: number;
  readonly replicas: number;
  readonly bounds: readonly number[];
  /** By stage, then replica. */
  readonly cells: readonly Unit[];
}

export function leastReduceMs(
  { stages, replicas, bounds, cells }: Grown,
  { parameters, framework }: LayerSums,
  { clusterOf, clusters, fabricGbs, widestGbs }: WaySpeeds,
): number {
  if (replicas === 1) return 0;
  const seenIn = new Int32Array(clusters);
  const seenAt = new Int32Array(clusterOf.length);
  // Results are gradients, or the parameters of a sharded optimiser: at least the smaller.
  const perParameter = framework.gradientBytes + Math.min(framework.gradientBytes, PARAMETER_BYTES);
  const passed = (perParameter * (replicas - 1)) / replicas;
  let most = 0;
  for (let stage = 0; stage < stages; stage += 1) {
    const from = parameters[bounds[stage] ?? 0] ?? 0;
    const bytes = passed * ((parameters[bounds[stage + 1] ?? 0] ?? 0) - from);
    let [inClusters, isOverHosts] = [0, false];
    for (let replica = 0; replica < replicas; replica += 1) {
      const host = cells[stage * replicas + replica]?.host ?? 0;
      if (seenAt[host] === stage + 1) continue;
      seenAt[host] = stage + 1;
      const cluster = clusterOf[host] ?? 0;
      if (seenIn[cluster] === stage + 1) isOverHosts = true;
      else inClusters += 1;
      seenIn[cluster] = stage + 1;
    }
    const gbs =
      inClusters > 1 ? Math.min(fabricGbs, widestGbs) : isOverHosts ? fabricGbs : Infinity;
    most = Math.max(most, bytes / (gbs * 1e6));
  }
  return most;
}
