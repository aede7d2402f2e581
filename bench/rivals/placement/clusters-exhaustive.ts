/**
 * @file Every set of clusters, looked at one by one: the oracle of the optimum, for up to sixteen clusters.
 *
 * Shares no code with the methods that it checks: the widths between clusters are closed over all relays one after the other (Floyd and Warshall), not by a tree.
 * Cost: O(2ⁿ · n²). Ties: the set whose bit mask is lowest.
 */

import {
  filled,
  type ClusterPolicy,
  type ClusterRoom,
} from "../../../scheduling/placement/cluster-policy.ts";

const MOST_EXHAUSTIVE = 16;

export const clustersExhaustive: ClusterPolicy = (demand, room) => {
  const { free } = room;
  const count = free.length;
  if (count > MOST_EXHAUSTIVE) return { work: 0 };
  const widths = closedWidths(room);
  let best: readonly number[] | undefined;
  let [bestCount, bestWidth, bestSum] = [Infinity, -Infinity, Infinity];
  for (let mask = 1; mask < 1 << count; mask += 1) {
    const chosen: number[] = [];
    let sum = 0;
    for (let at = 0; at < count; at += 1) {
      if (((mask >> at) & 1) === 0) continue;
      chosen.push(at);
      sum += free[at] ?? 0;
    }
    const isUsed = chosen.every((at) => (free[at] ?? 0) > 0);
    if (!isUsed || sum < demand.gpus || chosen.length > Math.min(demand.maxClusters, bestCount))
      continue;
    let width = Infinity;
    for (const a of chosen)
      for (const b of chosen) if (a < b) width = Math.min(width, widths[a * count + b] ?? 0);
    if (width <= 0) continue;
    const isBetter =
      chosen.length < bestCount || width > bestWidth || (width === bestWidth && sum < bestSum);
    if (!isBetter) continue;
    best = chosen;
    [bestCount, bestWidth, bestSum] = [chosen.length, width, sum];
  }
  const work = 2 ** count;
  const bySize = [...(best ?? [])].sort((a, b) => (free[b] ?? 0) - (free[a] ?? 0) || a - b);
  const choice = best === undefined ? undefined : filled(bySize, demand, room);
  return { ...(choice && { choice }), work };
};

function closedWidths({ links: { graph, shareGbps } }: ClusterRoom): Float64Array {
  const { count } = graph;
  const widths = shareGbps.slice();
  for (let relay = 0; relay < count; relay += 1)
    for (let from = 0; from < count; from += 1)
      for (let to = 0; to < count; to += 1) {
        const through = Math.min(
          widths[from * count + relay] ?? 0,
          widths[relay * count + to] ?? 0,
        );
        widths[from * count + to] = Math.max(widths[from * count + to] ?? 0, through);
      }
  return widths;
}
