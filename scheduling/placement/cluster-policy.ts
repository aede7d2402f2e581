/**
 * @file Which clusters, and how many GPUs of each, seen as numbers: the interface of SpinSearch, of ours and of the rivals, and how two
 * answers are compared.
 *
 * The better answer has fewer clusters; of as many, the higher bottleneck bandwidth between any two of them; of those, the one that
 * strands less: GPUs that stay free in the clusters that it opens. That is the paper's objective (§4.1.5) with a third key. A set with two
 * clusters that do not reach each other is no answer.
 * What is free is what the gang could have: after constraints, quota, watts and the shapes of hosts. So policies look at counts alone.
 */

import { bottleneckOf, type LoadedLinks } from "./link-graph.ts";

export interface ClusterWish {
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

/** The counts sum up to the wish, none is 0. */
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

export type ClusterPolicy = (wish: ClusterWish, room: ClusterRoom) => ClusterAnswer;

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
  wish: ClusterWish,
  { free }: Pick<ClusterRoom, "free">,
): ClusterChoice | undefined {
  const clusters: number[] = [];
  const gpus: number[] = [];
  let open = wish.gpus;
  for (const cluster of order) {
    if (open <= 0) break;
    const own = Math.min(open, free[cluster] ?? 0);
    if (own <= 0) continue;
    clusters.push(cluster);
    gpus.push(own);
    open -= own;
  }
  return open > 0 || clusters.length > wish.maxClusters ? undefined : { clusters, gpus };
}
