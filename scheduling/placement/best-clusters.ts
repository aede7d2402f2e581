/**
 * @file The lexicographic optimum: fewest clusters, then the best bottleneck bandwidth between them, then the fewest stranded GPUs.
 *
 * No search is needed, because widest paths make an ultrametric: the clusters that reach each other at a width of at least t fall into
 * groups, and a set has a bottleneck of t or more exactly when it lies in one group. So
 *   1. one cluster, if one holds the gang: the one that strands least;
 *   2. fewest clusters: in every component, the largest first until the gang is complete;
 *   3. best bottleneck: the largest width t at which the k largest clusters of some group hold the gang (binary search over the tree's widths);
 *   4. least stranded: in such a group, exactly k clusters whose free GPUs exceed the gang least (lib/subset-sum.ts), pseudo-polynomial.
 * Exact for any number of clusters, except step 4 where its tables would pass `mostWords`: then clusters are exchanged one by one, which
 * changes neither their number nor the bottleneck, and SpinSearch's answer is taken where it is better. So it is never worse than SpinSearch.
 * Ties: home, then the lowest numbers. Cost: O(n²) for the tree when loads have changed, O(n log n), and the tables.
 * Source: the objective of SpiderFlow §4.1.5, which the paper approximates; docs/decisions/0026.
 */

import { leastSubset } from "../../lib/subset-sum.ts";
import {
  compareScores,
  filled,
  scoreChoice,
  type ClusterAnswer,
  type ClusterChoice,
  type ClusterPolicy,
  type ClusterRoom,
  type ClusterDemand,
} from "./cluster-policy.ts";
import { widestTree, type LoadedLinks } from "./link-graph.ts";
import { spinSearch } from "./spin-search.ts";

export interface BestOptions {
  /** Of one table of subset sums; a word takes about a nanosecond. */
  readonly mostWords: number;
}

/** At 64 clusters of 56 GPUs no table comes near it. */
export const DEFAULT_BEST: BestOptions = Object.freeze({ mostWords: 2_000_000 });

export const bestClustersBy =
  (options: BestOptions): ClusterPolicy =>
  (demand, room) => {
    const alone = tightest(demand, room);
    const work = room.free.length;
    if (alone >= 0) return { choice: { clusters: [alone], gpus: [demand.gpus] }, work };
    return demand.maxClusters < 2 ? { work } : severalClusters(demand, room, options);
  };

export const bestClusters: ClusterPolicy = bestClustersBy(DEFAULT_BEST);

/** The cluster that holds the gang and has the fewest GPUs left afterwards; −1 without one. */
function tightest({ gpus, home }: ClusterDemand, { free }: ClusterRoom): number {
  let best = -1;
  let least = Infinity;
  for (let cluster = 0; cluster < free.length; cluster += 1) {
    const own = free[cluster] ?? 0;
    if (own < gpus || own > least || (own === least && cluster !== home)) continue;
    best = cluster;
    least = own;
  }
  return best;
}

function severalClusters(
  demand: ClusterDemand,
  room: ClusterRoom,
  { mostWords }: BestOptions,
): ClusterAnswer {
  const { free, links } = room;
  const { count, part } = links.graph;
  const bySize = largestFirst(free);
  let work = 2 * count;
  const fewest = fewestClusters(demand, room, bySize);
  if (fewest > demand.maxClusters) return { work };

  const widths = distinctWidths(links);
  const groups = new Int32Array(count);
  const goal: Goal = { gpus: demand.gpus, clusters: fewest, bySize, free };
  // At the width of 0 parts are groups, and one of them holds the gang.
  let [low, high] = [0, widths.length];
  let able = ableGroups(goal, part);
  while (low < high) {
    const middle = (low + high) >> 1;
    groupsAt(links, widths[middle] ?? 0, groups);
    const found = ableGroups(goal, groups);
    work += 2 * count;
    if (found.length > 0) {
      able = found;
      high = middle;
    } else low = middle + 1;
  }

  let best: ClusterChoice | undefined;
  let least = Infinity;
  let isExact = true;
  for (const members of able) {
    const sizes = members.map((cluster) => free[cluster] ?? 0);
    const found = leastSubset(sizes, { count: fewest, atLeast: demand.gpus, mostWords });
    work += found.words;
    isExact &&= found.isExact;
    const chosen = found.places ?? exchanged(sizes, fewest, demand.gpus);
    const stranded = chosen.reduce((sum, at) => sum + (sizes[at] ?? 0), -demand.gpus);
    if (stranded >= least) continue;
    least = stranded;
    best = filled(
      chosen.map((at) => members[at] ?? 0),
      demand,
      room,
    );
  }
  if (isExact || best === undefined) return { ...(best && { choice: best }), work };
  const spun = spinSearch(demand, room);
  work += spun.work;
  const isSpunBetter =
    spun.choice !== undefined &&
    compareScores(scoreChoice(spun.choice, room), scoreChoice(best, room)) < 0;
  return { choice: isSpunBetter ? spun.choice : best, work };
}

/** Clusters with free GPUs, most first, then by number. */
function largestFirst(free: Int32Array): Float64Array {
  const { length } = free;
  const keys = Float64Array.from(free, (own, at) => own * length + (length - 1 - at));
  keys.sort().reverse();
  let open = length;
  while (open > 0 && (keys[open - 1] ?? 0) < length) open -= 1;
  return keys.subarray(0, open).map((key) => length - 1 - (key % length));
}

/** Infinite when no connected part holds the gang. */
function fewestClusters(
  { gpus }: ClusterDemand,
  { free, links }: ClusterRoom,
  bySize: Float64Array,
): number {
  const { count, part } = links.graph;
  const held = new Int32Array(count);
  const used = new Int32Array(count);
  let fewest = Infinity;
  for (const cluster of bySize) {
    const own = part[cluster] ?? 0;
    const before = held[own] ?? 0;
    if (before >= gpus) continue;
    held[own] = before + (free[cluster] ?? 0);
    used[own] = (used[own] ?? 0) + 1;
    if ((held[own] ?? 0) >= gpus) fewest = Math.min(fewest, used[own] ?? 0);
  }
  return fewest;
}

/** The widths at which groups fall apart, widest first. */
function distinctWidths(links: LoadedLinks): Float64Array {
  const { joinGbps } = widestTree(links);
  const sorted = Float64Array.from(joinGbps).sort().reverse();
  return sorted.filter((width, at) => width > 0 && width !== sorted[at - 1]);
}

/** Gives clusters that reach each other at this width the same number: runs of the tree's order. */
function groupsAt(links: LoadedLinks, width: number, groups: Int32Array): void {
  const { order, joinGbps } = widestTree(links);
  let group = 0;
  for (let place = 0; place < order.length; place += 1) {
    if ((joinGbps[place] ?? 0) < width) group = place;
    groups[order[place] ?? 0] = group;
  }
}

interface Goal {
  readonly gpus: number;
  readonly clusters: number;
  readonly bySize: Float64Array;
  readonly free: Int32Array;
}

/** Groups whose `clusters` largest clusters hold the gang; each with all its clusters that have free GPUs, most first. */
function ableGroups(
  { gpus, clusters, bySize, free }: Goal,
  groups: Int32Array,
): readonly (readonly number[])[] {
  const held = new Int32Array(groups.length);
  const used = new Int32Array(groups.length);
  const able: number[] = [];
  for (const cluster of bySize) {
    const group = groups[cluster] ?? 0;
    if ((used[group] ?? 0) >= clusters) continue;
    used[group] = (used[group] ?? 0) + 1;
    held[group] = (held[group] ?? 0) + (free[cluster] ?? 0);
    if (used[group] === clusters && (held[group] ?? 0) >= gpus) able.push(group);
  }
  return able.map((group) => Array.from(bySize).filter((cluster) => groups[cluster] === group));
}

/** Starts with the largest and exchanges each for the smallest one with which the gang still fits; places in the list. */
function exchanged(sizes: readonly number[], count: number, gpus: number): readonly number[] {
  const chosen = sizes.slice(0, count).map((_, at) => at);
  let slack = chosen.reduce((sum, at) => sum + (sizes[at] ?? 0), -gpus);
  for (let place = count - 1; place >= 0 && slack > 0; place -= 1) {
    const own = sizes[chosen[place] ?? 0] ?? 0;
    let smallest = -1;
    for (let at = count; at < sizes.length; at += 1)
      if (!chosen.includes(at) && (sizes[at] ?? 0) >= own - slack) smallest = at;
    if (smallest < 0) continue;
    slack -= own - (sizes[smallest] ?? 0);
    chosen[place] = smallest;
  }
  return [...chosen].sort((a, b) => a - b);
}
