/**
 * @file The interface of cluster policies (SpinSearch, ours, the rivals): which clusters, and how many GPUs of each; and the order of two answers.
 *
 * The better answer has fewer clusters; then the higher bottleneck bandwidth between any two of them; then fewer stranded GPUs, those that
 * stay free in the clusters that it opens. This is the paper's objective (§4.1.5) with a third key. A set with two clusters that do not
 * reach each other is no answer. Free GPUs are those that the gang could have, after constraints, quota, watts and the shapes of hosts, so
 * policies see counts alone.
 */

import { bottleneckOf, type LoadedLinks } from "./link-graph.ts";

export interface ClusterDemand {
  readonly gpus: number;
  readonly maxClusters: number;
  /** Where the job was submitted; absent when it is at home nowhere. */
  readonly home?: number;
}

export interface ClusterRoom {
  readonly links: LoadedLinks;
  /** GPUs that the gang could have, by number of the cluster. */
  readonly free: Int32Array;
}

/** The counts add up to the request's GPUs, none is 0. */
export interface ClusterChoice {
  readonly clusters: readonly number[];
  /** By place in `clusters`. */
  readonly gpus: readonly number[];
}

/** `work` counts clusters, table words and tree nodes that were looked at. */
export interface ClusterAnswer {
  readonly choice?: ClusterChoice;
  readonly work: number;
}

export type ClusterPolicy = (demand: ClusterDemand, room: ClusterRoom) => ClusterAnswer;

export interface ChoiceScore {
  readonly clusters: number;
  /** Infinite in one cluster, 0 where two do not reach each other. */
  readonly bottleneckGbps: number;
  readonly strandedGpus: number;
}

export function scoreChoice({ clusters, gpus }: ClusterChoice, room: ClusterRoom): ChoiceScore {
  let strandedGpus = 0;
  for (const [at, cluster] of clusters.entries())
    strandedGpus += (room.free[cluster] ?? 0) - (gpus[at] ?? 0);
  return {
    clusters: clusters.length,
    bottleneckGbps: bottleneckOf(room.links, clusters),
    strandedGpus,
  };
}

/** Negative when the first is better. Widths are compared exactly: the same links give the same number. */
export function compareScores(a: ChoiceScore, b: ChoiceScore): number {
  if (a.clusters !== b.clusters) return a.clusters - b.clusters;
  if (a.bottleneckGbps !== b.bottleneckGbps) return b.bottleneckGbps - a.bottleneckGbps;
  return a.strandedGpus - b.strandedGpus;
}

/** Takes all that each cluster has, in this order, until the gang is whole; undefined when it never is. */
export function filled(
  order: Iterable<number>,
  demand: ClusterDemand,
  { free }: Pick<ClusterRoom, "free">,
): ClusterChoice | undefined {
  const clusters: number[] = [];
  const gpus: number[] = [];
  let open = demand.gpus;
  for (const cluster of order) {
    if (open <= 0) break;
    const own = Math.min(open, free[cluster] ?? 0);
    if (own <= 0) continue;
    clusters.push(cluster);
    gpus.push(own);
    open -= own;
  }
  return open > 0 || clusters.length > demand.maxClusters ? undefined : { clusters, gpus };
}
