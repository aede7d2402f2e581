/**
 * @file Chooses the clusters of a gang that prefers short or cheap paths: fewest clusters, then the least worst pair, then least stranded GPUs.
 *
 * The distance of two clusters is that of the shortest path: the sum of round trips, or of prices of a gigabyte. Such distances are no
 * ultrametric, so sets are searched by branch and bound: clusters by size, largest first; a branch is cut when the largest remaining
 * clusters do not hold the gang, or a pair in it is further apart than in the best set so far. The set that bandwidth chooses
 * (best-clusters.ts) is the first incumbent, so the answer never has more clusters. Exact within `mostNodes`; beyond that the best so far,
 * and the answer says so. Ties: lowest numbers.
 * Cost: the distances O(n³) once a graph; at most `mostNodes` · n. Source: SpiderFlow, table 1, where latency is the spider's distance.
 */

import { bestClusters } from "./best-clusters.ts";
import {
  filled,
  type ClusterAnswer,
  type ClusterChoice,
  type ClusterRoom,
  type ClusterDemand,
} from "./cluster-policy.ts";
import type { LinkGraph } from "./link-graph.ts";

export interface NearestOptions {
  readonly prefer: "latency" | "price";
  readonly mostNodes: number;
}

/** A few milliseconds. */
export const MOST_NODES = 20_000;

export interface NearestAnswer extends ClusterAnswer {
  readonly isExact: boolean;
}

export function nearestClusters(
  demand: ClusterDemand,
  room: ClusterRoom,
  { prefer, mostNodes }: NearestOptions,
): NearestAnswer {
  const first = bestClusters(demand, room);
  if (first.choice === undefined || first.choice.clusters.length < 2)
    return { ...first, isExact: true };
  const { free, links } = room;
  const { count } = links.graph;
  const distance = distancesOf(links.graph, prefer);
  const wanted = first.choice.clusters.length;
  let best: readonly number[] = first.choice.clusters;
  let bestWorst = worstPair(first.choice, distance, count);
  let bestSum = best.reduce((sum, cluster) => sum + (free[cluster] ?? 0), 0);
  let nodes = 0;
  const chosen: number[] = [];
  const grow = (open: readonly number[], sum: number, worst: number): void => {
    const slots = wanted - chosen.length;
    for (const [at, cluster] of open.entries()) {
      let most = sum;
      for (let next = at; next < at + slots; next += 1) most += free[open[next] ?? -1] ?? 0;
      if (most < demand.gpus || nodes >= mostNodes) return;
      nodes += 1;
      let own = worst;
      for (const other of chosen) own = Math.max(own, distance[cluster * count + other] ?? 0);
      if (own > bestWorst || (own === bestWorst && bestSum === demand.gpus)) continue;
      const held = sum + (free[cluster] ?? 0);
      if (slots === 1) {
        if (own === bestWorst && held >= bestSum) continue;
        [best, bestWorst, bestSum] = [[...chosen, cluster], own, held];
        continue;
      }
      chosen.push(cluster);
      const near = open
        .slice(at + 1)
        .filter((other) => (distance[cluster * count + other] ?? Infinity) <= bestWorst);
      grow(near, held, own);
      chosen.pop();
    }
  };
  const bySize = Array.from(free, (_, cluster) => cluster)
    .filter((cluster) => (free[cluster] ?? 0) > 0)
    .sort((a, b) => (free[b] ?? 0) - (free[a] ?? 0) || a - b);
  grow(bySize, 0, 0);
  const inOrder = [...best].sort((a, b) => (free[b] ?? 0) - (free[a] ?? 0) || a - b);
  const choice = filled(inOrder, demand, room);
  return {
    ...(choice && { choice }),
    work: first.work + nodes * count,
    isExact: nodes < mostNodes,
  };
}

export function worstPair(
  { clusters }: Pick<ClusterChoice, "clusters">,
  distance: Float64Array,
  count: number,
): number {
  let worst = 0;
  for (const a of clusters)
    for (const b of clusters)
      if (a !== b) worst = Math.max(worst, distance[a * count + b] ?? Infinity);
  return worst;
}

/** Memo of a pure function: distances do not depend on the load of links. */
const known = new WeakMap<LinkGraph, Map<NearestOptions["prefer"], Float64Array>>();

/** `from * count + to`; infinite where there is no path. */
export function distancesOf(graph: LinkGraph, prefer: NearestOptions["prefer"]): Float64Array {
  const own = known.get(graph) ?? new Map<NearestOptions["prefer"], Float64Array>();
  known.set(graph, own);
  const found = own.get(prefer) ?? shortestWays(graph, prefer);
  own.set(prefer, found);
  return found;
}

function shortestWays({ count, latencyMs, usdPerGB }: LinkGraph, prefer: string): Float64Array {
  const ways = (prefer === "latency" ? latencyMs : usdPerGB).slice();
  for (let at = 0; at < count; at += 1) ways[at * count + at] = 0;
  for (let relay = 0; relay < count; relay += 1)
    for (let from = 0; from < count; from += 1)
      for (let to = 0; to < count; to += 1) {
        const through = (ways[from * count + relay] ?? 0) + (ways[relay * count + to] ?? 0);
        if (through < (ways[from * count + to] ?? 0)) ways[from * count + to] = through;
      }
  return ways;
}
