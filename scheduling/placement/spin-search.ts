/**
 * @file SpinSearch: a spider crawls from cluster to cluster until it has the GPUs that a job needs. The order of the paper's example.
 *
 *   1. At home, where home holds the gang.
 *   2. The first cluster, most incident bandwidth first, that holds it alone.
 *   3. All of home, and the first cluster in that order that holds the rest.
 *   4. All of home and all of its largest neighbour; from there hops are expanded. Of the clusters within r hops the first one that holds the rest,
 *      by the key (β from that neighbour, free GPUs, bandwidth score); else, where they hold it together, as many as it takes, in the order of the key.
 * §4.1.2 and 4.1.3 read literally are another search (spin-search-literal.ts; docs/decisions/0025). What the paper leaves open: without a home
 * the largest cluster stands for the largest neighbour; a home without a neighbour that has GPUs looks for the largest among all that it reaches.
 * Clusters that home does not reach are not joined with it. Ties: the lowest number.
 * Cost: O(n) for steps 1 to 3; the hops O(n) each, beside the tree and the hop counts that are remembered. Source: SpiderFlow §4.1.4, figure 4.
 */

import {
  filled,
  type ClusterAnswer,
  type ClusterPolicy,
  type ClusterRoom,
  type ClusterWish,
} from "./cluster-policy.ts";
import { byIncident, hopsFrom, widestFrom, type LinkGraph } from "./link-graph.ts";

export interface SpinOptions {
  /** `incident`: the sum over a cluster's links (equation 2). `widest`: the widest path from home (equation 3), `incident` without a home. */
  readonly rankBy: "incident" | "widest";
}

export const DEFAULT_SPIN: SpinOptions = Object.freeze({ rankBy: "incident" });

export const spinSearchBy =
  ({ rankBy }: SpinOptions): ClusterPolicy =>
  (wish, room) => {
    const order =
      rankBy === "widest" && wish.home !== undefined
        ? byWidth(widestFrom(room.links, wish.home))
        : byIncident(room.links);
    return searched(wish, room, order);
  };

export const spinSearch: ClusterPolicy = spinSearchBy(DEFAULT_SPIN);

function searched(wish: ClusterWish, room: ClusterRoom, order: Int32Array): ClusterAnswer {
  const { gpus, home, maxClusters } = wish;
  const { free, links } = room;
  const { count } = links.graph;
  const atHome = home === undefined ? 0 : (free[home] ?? 0);
  if (home !== undefined && atHome >= gpus)
    return { choice: { clusters: [home], gpus: [gpus] }, work: 1 };
  const alone = firstThatHolds(gpus, order, room);
  if (alone >= 0) return { choice: { clusters: [alone], gpus: [gpus] }, work: count };
  if (maxClusters < 2) return { work: count };
  if (home !== undefined && atHome > 0) {
    const other = firstThatHolds(gpus - atHome, order, room, home);
    if (other >= 0)
      return {
        choice: { clusters: [home, other], gpus: [atHome, gpus - atHome] },
        work: 2 * count,
      };
  }
  return expanded(wish, room, order);
}

/** Of those that `joined` reaches, where it is given. −1: none. */
function firstThatHolds(
  gpus: number,
  order: Int32Array,
  { free, links: { graph } }: ClusterRoom,
  joined?: number,
): number {
  const part = joined === undefined ? -1 : graph.part[joined];
  for (let at = 0; at < order.length; at += 1) {
    const cluster = order[at] ?? 0;
    if ((free[cluster] ?? 0) < gpus || cluster === joined) continue;
    if (joined === undefined || graph.part[cluster] === part) return cluster;
  }
  return -1;
}

function expanded(wish: ClusterWish, room: ClusterRoom, order: Int32Array): ClusterAnswer {
  const { free, links } = room;
  const { graph } = links;
  const { count } = graph;
  const anchor = largestNeighbour(wish.home, room, order);
  let work = 3 * count;
  if (anchor < 0) return { work };
  const isHomeUsed = wish.home !== undefined && (free[wish.home] ?? 0) > 0;
  const crawl = isHomeUsed ? [wish.home, anchor] : [anchor];
  let open = wish.gpus;
  for (const cluster of crawl) open -= free[cluster] ?? 0;
  const hops = knownHops(graph, anchor);
  const widths = widestFrom(links, anchor);
  const isLeft = (cluster: number, radius: number): boolean => {
    const away = hops[cluster] ?? -1;
    return away > 0 && away <= radius && cluster !== wish.home && (free[cluster] ?? 0) > 0;
  };
  let furthest = 0;
  for (let cluster = 0; cluster < count; cluster += 1)
    furthest = Math.max(furthest, hops[cluster] ?? 0);
  for (let radius = 1; radius <= furthest; radius += 1) {
    work += count;
    let holder = -1;
    let held = 0;
    for (let cluster = 0; cluster < count; cluster += 1) {
      if (!isLeft(cluster, radius)) continue;
      const own = free[cluster] ?? 0;
      held += own;
      if (own >= open && (holder < 0 || isBefore(cluster, holder, room, widths))) holder = cluster;
    }
    if (holder < 0 && held < open) continue;
    const rest =
      holder >= 0
        ? [holder]
        : Array.from({ length: count }, (_, cluster) => cluster)
            .filter((cluster) => isLeft(cluster, radius))
            .sort((a, b) => (isBefore(a, b, room, widths) ? -1 : 1));
    const choice = filled([...crawl, ...rest], wish, room);
    return choice === undefined ? { work } : { choice, work };
  }
  return { work };
}

/** The neighbour of home with most GPUs; −1 where nobody has any. */
function largestNeighbour(
  home: number | undefined,
  { free, links: { graph } }: ClusterRoom,
  order: Int32Array,
): number {
  const largest = (isAllowed: (cluster: number) => boolean): number => {
    let best = -1;
    for (let at = 0; at < order.length; at += 1) {
      const cluster = order[at] ?? 0;
      const own = free[cluster] ?? 0;
      if (own > 0 && isAllowed(cluster) && (best < 0 || own > (free[best] ?? 0))) best = cluster;
    }
    return best;
  };
  if (home === undefined) return largest(() => true);
  const linked = largest((cluster) => (graph.gbps[home * graph.count + cluster] ?? 0) > 0);
  if (linked >= 0) return linked;
  return largest((cluster) => cluster !== home && graph.part[cluster] === graph.part[home]);
}

/** The key of equation 7, higher first. */
function isBefore(
  a: number,
  b: number,
  { free, links: { incidentGbps } }: ClusterRoom,
  widths: Float64Array,
): boolean {
  const byKey =
    (widths[b] ?? 0) - (widths[a] ?? 0) ||
    (free[b] ?? 0) - (free[a] ?? 0) ||
    (incidentGbps[b] ?? 0) - (incidentGbps[a] ?? 0) ||
    a - b;
  return byKey < 0;
}

const byWidth = (widths: Float64Array): Int32Array =>
  Int32Array.from(widths, (_, at) => at).sort(
    (a, b) => (widths[b] === widths[a] ? 0 : (widths[b] ?? 0) - (widths[a] ?? 0)) || a - b,
  );

/** The memory of a pure function: hops do not depend on what links carry. */
const known = new WeakMap<LinkGraph, Map<number, Int32Array>>();

function knownHops(graph: LinkGraph, source: number): Int32Array {
  const own = known.get(graph) ?? new Map<number, Int32Array>();
  known.set(graph, own);
  const hops = own.get(source) ?? hopsFrom(graph, source);
  own.set(source, hops);
  return hops;
}
