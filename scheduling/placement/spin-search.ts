/**
 * @file SpinSearch: a spider crawls from cluster to cluster until it has the GPUs that a job needs. The order of the paper's example.
 *
 *   1. Home, if home holds the gang.
 *   2. The first cluster, most incident bandwidth first, that holds it alone.
 *   3. All of home, and the first cluster in that order that holds the rest.
 *   4. All of home and all of its largest neighbour; from there hops are expanded. Of the clusters within r hops the first one that holds the
 *      rest, by the key (β from that neighbour, free GPUs, bandwidth score); else, if together they hold it, as many as needed, in that order.
 * §4.1.2 and 4.1.3 read literally are another search (bench/rivals/placement/spin-search-literal.ts; docs/decisions/0025). Where the paper is
 * silent: without a home the largest cluster stands for the largest neighbour; a home whose neighbours have no GPUs takes the largest of all
 * clusters that it reaches. Clusters that home does not reach are not joined with it. Ties: the lowest number.
 * Cost: O(n) for steps 1 to 3; the hops O(n) each, beside the tree and the kept hop counts. Source: SpiderFlow §4.1.4, figure 4.
 */

import {
  filled,
  type ClusterAnswer,
  type ClusterPolicy,
  type ClusterRoom,
  type ClusterDemand,
} from "./cluster-policy.ts";
import { byIncident, hopsFrom, widestFrom, type LinkGraph } from "./link-graph.ts";

export interface SpinOptions {
  /** `incident`: the sum over a cluster's links (equation 2). `widest`: the widest path from home (equation 3), `incident` without a home. */
  readonly rankBy: "incident" | "widest";
}

const DEFAULT_SPIN: SpinOptions = Object.freeze({ rankBy: "incident" });

export const spinSearchBy =
  ({ rankBy }: SpinOptions): ClusterPolicy =>
  (demand, room) => {
    const order =
      rankBy === "widest" && demand.home !== undefined
        ? byWidth(widestFrom(room.links, demand.home))
        : byIncident(room.links);
    return searched(demand, room, order);
  };

export const spinSearch: ClusterPolicy = spinSearchBy(DEFAULT_SPIN);

function searched(demand: ClusterDemand, room: ClusterRoom, order: Int32Array): ClusterAnswer {
  const { gpus, home, maxClusters } = demand;
  const { free, links } = room;
  const { count } = links.graph;
  const atHome = home === undefined ? 0 : (free[home] ?? 0);
  if (home !== undefined && atHome >= gpus)
    return { choice: { clusters: [home], gpus: [gpus] }, work: 1 };
  const alone = firstThatHolds(gpus, order, { room });
  if (alone >= 0) return { choice: { clusters: [alone], gpus: [gpus] }, work: count };
  if (maxClusters < 2) return { work: count };
  if (home !== undefined && atHome > 0) {
    const other = firstThatHolds(gpus - atHome, order, { room, joined: home });
    if (other >= 0)
      return {
        choice: { clusters: [home, other], gpus: [atHome, gpus - atHome] },
        work: 2 * count,
      };
  }
  return expanded(demand, room, order);
}

/** The first cluster that holds the GPUs alone, and that `joined` reaches where it is given; −1 without one. */
function firstThatHolds(
  gpus: number,
  order: Int32Array,
  { room, joined }: { readonly room: ClusterRoom; readonly joined?: number | undefined },
): number {
  const { free } = room;
  const { graph } = room.links;
  const part = joined === undefined ? -1 : graph.part[joined];
  for (let at = 0; at < order.length; at += 1) {
    const cluster = order[at] ?? 0;
    if ((free[cluster] ?? 0) < gpus || cluster === joined) continue;
    if (joined === undefined || graph.part[cluster] === part) return cluster;
  }
  return -1;
}

function expanded(demand: ClusterDemand, room: ClusterRoom, order: Int32Array): ClusterAnswer {
  const { free, links } = room;
  const { graph } = links;
  const { count } = graph;
  const anchor = largestNeighbour(demand.home, room, order);
  let work = 3 * count;
  if (anchor < 0) return { work };
  const isHomeUsed = demand.home !== undefined && (free[demand.home] ?? 0) > 0;
  const crawl = isHomeUsed ? [demand.home, anchor] : [anchor];
  let open = demand.gpus;
  for (const cluster of crawl) open -= free[cluster] ?? 0;
  const { hops, byHops } = knownHops(graph, anchor);
  const key: SpinKey = { room, widths: widestFrom(links, anchor) };
  const near: number[] = [];
  let held = 0;
  let holder = -1;
  for (let at = 0; at < byHops.length; at += 1) {
    const cluster = byHops[at] ?? 0;
    const own = free[cluster] ?? 0;
    if (own > 0 && cluster !== demand.home) {
      near.push(cluster);
      held += own;
      if (own >= open && (holder < 0 || isBefore(cluster, holder, key))) holder = cluster;
    }
    work += 1;
    // The radius is whole when the next cluster is further away.
    const isWhole = hops[byHops[at + 1] ?? -1] !== hops[cluster];
    if (!isWhole || held < open) continue;
    const rest = holder >= 0 ? [holder] : firstByKey(near, open, key);
    const choice = filled([...crawl, ...rest], demand, room);
    return choice === undefined ? { work } : { choice, work };
  }
  return { work };
}

/** As many clusters as hold the GPUs together, in the order of the key. */
function firstByKey(near: number[], gpus: number, key: SpinKey): readonly number[] {
  const chosen: number[] = [];
  let open = gpus;
  while (open > 0 && near.length > 0) {
    let first = 0;
    for (let at = 1; at < near.length; at += 1)
      if (isBefore(near[at] ?? 0, near[first] ?? 0, key)) first = at;
    const cluster = near[first] ?? 0;
    near[first] = near.at(-1) ?? 0;
    near.pop();
    chosen.push(cluster);
    open -= key.room.free[cluster] ?? 0;
  }
  return chosen;
}

/** The neighbour of home with the most free GPUs; −1 where no neighbour has any. */
function largestNeighbour(
  home: number | undefined,
  { free, links: { graph } }: ClusterRoom,
  order: Int32Array,
): number {
  const { count, gbps, part } = graph;
  let largest = -1;
  let linked = -1;
  for (let at = 0; at < order.length; at += 1) {
    const cluster = order[at] ?? 0;
    const own = free[cluster] ?? 0;
    if (own <= 0 || cluster === home) continue;
    if (home !== undefined && part[cluster] !== part[home]) continue;
    if (largest < 0 || own > (free[largest] ?? 0)) largest = cluster;
    const isLinked = home !== undefined && (gbps[home * count + cluster] ?? 0) > 0;
    if (isLinked && (linked < 0 || own > (free[linked] ?? 0))) linked = cluster;
  }
  return linked >= 0 ? linked : largest;
}

/** The order of equation 7: by bandwidth from a cluster, then free GPUs, then bandwidth score. */
interface SpinKey {
  readonly room: ClusterRoom;
  /** Widest paths from the cluster. */
  readonly widths: Float64Array;
}

/** By the key of equation 7, higher first. */
function isBefore(a: number, b: number, { room, widths }: SpinKey): boolean {
  const { free } = room;
  const { incidentGbps } = room.links;
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

interface Hops {
  readonly hops: Int32Array;
  /** The reached clusters without the source, nearest first. */
  readonly byHops: Int32Array;
}

/** Memo of a pure function: hops do not depend on the load of links. */
const known = new WeakMap<LinkGraph, Map<number, Hops>>();

function knownHops(graph: LinkGraph, source: number): Hops {
  const own = known.get(graph) ?? new Map<number, Hops>();
  known.set(graph, own);
  const found = own.get(source) ?? hopsOf(graph, source);
  own.set(source, found);
  return found;
}

function hopsOf(graph: LinkGraph, source: number): Hops {
  const hops = hopsFrom(graph, source);
  const byHops = Int32Array.from(hops, (_, at) => at)
    .filter((cluster) => (hops[cluster] ?? 0) > 0)
    .sort((a, b) => (hops[a] ?? 0) - (hops[b] ?? 0) || a - b);
  return { hops, byHops };
}
