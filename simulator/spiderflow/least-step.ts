/**
 * @file Bounds below a step's time, so that splits that cannot be the shortest are not predicted.
 *
 * Compute: the model's work evenly shared out, with the bubble of a pipeline of m micro-batches and p stages, (m + p − 1) / m. Gradients: a stage whose replicas
 * lie on several hosts or clusters passes 2(k − 1)/k times its bytes over the fabric, or over the widest way between clusters, which it may share with others.
 * Both are terms of `step-time.ts` with what slows them down left out. Cost: O(GPUs), no allocation.
 */

import { MODEL_FLOP_SHARE } from "../../scheduling/plan/models.ts";
import type { Unit } from "../../scheduling/plan/site.ts";
import type { LayerSums } from "../../scheduling/plan/step-time.ts";

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

export interface Grown {
  readonly stages: number;
  readonly replicas: number;
  readonly bounds: readonly number[];
  /** By stage, then replica. */
  readonly cells: readonly Unit[];
}

const GRADIENT_BYTES = 2;

export function leastReduceMs(
  { stages, replicas, bounds, cells }: Grown,
  { parameters }: LayerSums,
  { clusterOf, clusters, fabricGbs, widestGbs }: WaySpeeds,
): number {
  if (replicas === 1) return 0;
  const seenIn = new Int32Array(clusters);
  const seenAt = new Int32Array(clusterOf.length);
  let most = 0;
  for (let stage = 0; stage < stages; stage += 1) {
    const from = parameters[bounds[stage] ?? 0] ?? 0;
    const bytes = GRADIENT_BYTES * ((parameters[bounds[stage + 1] ?? 0] ?? 0) - from);
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
    // Two hosts of a cluster at least: 2(k − 1)/k is 1 or more.
    const fabricMs = isOverHosts ? bytes / (fabricGbs * 1e6) : 0;
    const wanMs = (((2 * (inClusters - 1)) / inClusters) * bytes) / (widestGbs * 1e6);
    most = Math.max(most, fabricMs + (inClusters > 1 ? wanMs : 0));
  }
  return most;
}
