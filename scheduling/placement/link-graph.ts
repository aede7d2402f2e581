/**
 * @file The links between clusters as index arrays: which clusters reach each other, at which width, and the load of running gangs.
 *
 * Made from the labelled graph of clusters (domain/fleet/cluster-graph.ts); clusters are numbered in the order of the fleet. A link that
 * carries k gangs gives the next one its fair share, bandwidth / (k + 1).
 * The widest path between two clusters is the path in the maximum spanning tree, so its width (the paper's β, equation 1) is the narrowest
 * link on the path; relays through clusters outside the gang count, as in the paper. `widestTree` grows that tree by Prim's method. Its
 * order has a useful property: β between the a-th and the b-th cluster of the order is the least of `joinGbps[a + 1 … b]`. So the clusters
 * that reach each other at a given width are runs of the order, and no search needs the n² table of widths.
 * Ties: the lowest number. Cost: the tree O(n²) without a heap, built again only after links or loads have changed; the arrays O(n²).
 * Source: SpiderFlow §4.1.1, §4.1.2.
 */

import { clusterGraph, numberedLinks, reachableSets } from "../../domain/fleet/cluster-graph.ts";
import type { Link } from "../../domain/fleet/fleet.ts";
import type { ClusterId } from "../../domain/values/ids.ts";

export interface LinkGraph {
  readonly count: number;
  /** `from * count + to`, the same both ways; 0 where there is no link. */
  readonly gbps: Float64Array;
  /** Infinite where there is no link. */
  readonly latencyMs: Float64Array;
  /** Infinite where there is no link. */
  readonly usdPerGB: Float64Array;
  /** Clusters that a link joins with `c`: `neighbours[firstNeighbour[c] … firstNeighbour[c + 1] − 1]`, ascending. */
  readonly firstNeighbour: Int32Array;
  readonly neighbours: Int32Array;
  /** By cluster: the lowest number in its connected component. */
  readonly part: Int32Array;
}

/** A graph with the load of its links; changes as gangs come and go. */
export interface LoadedLinks {
  readonly graph: LinkGraph;
  /** Gangs on each link, the same both ways. */
  readonly gangs: Int32Array;
  /** Share of each link that one more gang gets. */
  readonly shareGbps: Float64Array;
  /** The paper's B, equation 2: the sum over a cluster's links of the share that one more gang gets. */
  readonly incidentGbps: Float64Array;
  /** Grows with every change. */
  version: number;
  tree: WidestTree | undefined;
  ranked: { readonly version: number; readonly order: Int32Array } | undefined;
}

/** The maximum spanning tree, or forest, in the order in which Prim's method takes the clusters in. */
export interface WidestTree {
  /** Version of the links; the tree is rebuilt in place. */
  version: number;
  readonly order: Int32Array;
  /** Place of a cluster in the order. */
  readonly placeOf: Int32Array;
  /** By place: width of the link to the clusters before it; 0 for the first cluster of every component. */
  readonly joinGbps: Float64Array;
  /** By cluster: the other end of that link; −1 for the first cluster of a component. */
  readonly parent: Int32Array;
  /** Scratch array of the construction. */
  readonly width: Float64Array;
}

export function openLinkGraph(clusters: readonly ClusterId[], links: readonly Link[]): LinkGraph {
  const count = clusters.length;
  const labelled = clusterGraph(clusters, links);
  const pairs = {
    gbps: new Float64Array(count * count),
    latencyMs: new Float64Array(count * count).fill(Infinity),
    usdPerGB: new Float64Array(count * count).fill(Infinity),
  };
  for (const { a, b, label } of numberedLinks(labelled)) {
    for (const at of [a * count + b, b * count + a]) {
      pairs.gbps[at] = label.bandwidthGbps;
      pairs.latencyMs[at] = label.latencyMs;
      pairs.usdPerGB[at] = label.usdPerGB;
    }
  }
  const firstNeighbour = new Int32Array(count + 1);
  const neighbours: number[] = [];
  for (let from = 0; from < count; from += 1) {
    for (let to = 0; to < count; to += 1)
      if ((pairs.gbps[from * count + to] ?? 0) > 0) neighbours.push(to);
    firstNeighbour[from + 1] = neighbours.length;
  }
  const part = new Int32Array(count);
  for (const set of reachableSets(labelled))
    for (const cluster of set) part[cluster] = set[0] ?? cluster;
  return {
    count,
    ...pairs,
    firstNeighbour,
    neighbours: Int32Array.from(neighbours),
    part,
  };
}

export function openLoads(graph: LinkGraph): LoadedLinks {
  const { count } = graph;
  const links: LoadedLinks = {
    graph,
    gangs: new Int32Array(count * count),
    shareGbps: graph.gbps.slice(),
    incidentGbps: new Float64Array(count),
    version: 0,
    tree: undefined,
    ranked: undefined,
  };
  for (let cluster = 0; cluster < count; cluster += 1)
    links.incidentGbps[cluster] = incidentSum(links, cluster);
  return links;
}

function incidentSum({ graph, shareGbps }: LoadedLinks, cluster: number): number {
  const { count, firstNeighbour, neighbours } = graph;
  let sum = 0;
  for (let at = firstNeighbour[cluster] ?? 0; at < (firstNeighbour[cluster + 1] ?? 0); at += 1)
    sum += shareGbps[cluster * count + (neighbours[at] ?? 0)] ?? 0;
  return sum;
}

/** The clusters by their incident bandwidth, most first; kept until the loads change. Cost: O(n) where little has changed. */
export function byIncident(links: LoadedLinks): Int32Array {
  const { incidentGbps, version } = links;
  if (links.ranked?.version === version) return links.ranked.order;
  const order = links.ranked?.order ?? Int32Array.from(incidentGbps, (_, at) => at);
  for (let at = 1; at < order.length; at += 1) {
    const cluster = order[at] ?? 0;
    const own = incidentGbps[cluster] ?? 0;
    let place = at;
    for (; place > 0; place -= 1) {
      const other = order[place - 1] ?? 0;
      const others = incidentGbps[other] ?? 0;
      if (others > own || (others === own && other < cluster)) break;
      order[place] = other;
    }
    order[place] = cluster;
  }
  links.ranked = { version, order };
  return order;
}

/** The links that a gang over these clusters uses: the paths between them in the widest tree, as `from * count + to`. */
export function linksOf(links: LoadedLinks, clusters: readonly number[]): readonly number[] {
  if (clusters.length < 2) return [];
  const { count } = links.graph;
  const { parent } = widestTree(links);
  const isWanted = new Uint8Array(count);
  for (const cluster of clusters) isWanted[cluster] = 1;
  const below = new Int32Array(count);
  // The gang uses a link of the tree if it has clusters on both sides of it.
  const used: number[] = [];
  const { order } = widestTree(links);
  for (let place = count - 1; place >= 0; place -= 1) {
    const cluster = order[place] ?? 0;
    const onThisSide = (below[cluster] ?? 0) + (isWanted[cluster] ?? 0);
    const above = parent[cluster] ?? -1;
    if (above < 0 || onThisSide === 0) continue;
    below[above] = (below[above] ?? 0) + onThisSide;
    if (onThisSide < clusters.length) used.push(above * count + cluster);
  }
  return used;
}

/** Adds a gang to the load of these links, or removes one. */
export function addLoad(links: LoadedLinks, used: readonly number[], gangs: 1 | -1): void {
  if (used.length === 0) return;
  const { graph, shareGbps, incidentGbps } = links;
  const { count } = graph;
  for (const at of used) {
    const from = Math.floor(at / count);
    const to = at % count;
    const back = to * count + from;
    const carried = (links.gangs[at] ?? 0) + gangs;
    const share = (graph.gbps[at] ?? 0) / (carried + 1);
    links.gangs[at] = carried;
    links.gangs[back] = carried;
    shareGbps[at] = share;
    shareGbps[back] = share;
    // Summed again, so that the sums depend on the loads alone and not on their history.
    incidentGbps[from] = incidentSum(links, from);
    incidentGbps[to] = incidentSum(links, to);
  }
  links.version += 1;
}

/** Kept until the loads change. */
export function widestTree(links: LoadedLinks): WidestTree {
  if (links.tree?.version === links.version) return links.tree;
  const { graph, shareGbps } = links;
  const { count } = graph;
  const tree = links.tree ?? emptyTree(count);
  const { order, placeOf, joinGbps, parent, width } = tree;
  const { firstNeighbour, neighbours } = graph;
  parent.fill(-1);
  width.fill(0);
  for (let place = 0; place < count; place += 1) {
    let cluster = 0;
    let widest = -1;
    for (let at = 0; at < count; at += 1) {
      const own = width[at] ?? 0;
      if (own <= widest) continue;
      widest = own;
      cluster = at;
    }
    order[place] = cluster;
    placeOf[cluster] = place;
    joinGbps[place] = widest;
    width[cluster] = TAKEN;
    const last = firstNeighbour[cluster + 1] ?? 0;
    for (let at = firstNeighbour[cluster] ?? 0; at < last; at += 1) {
      const other = neighbours[at] ?? 0;
      const share = shareGbps[cluster * count + other] ?? 0;
      if (width[other] === TAKEN || share <= (width[other] ?? 0)) continue;
      width[other] = share;
      parent[other] = cluster;
    }
  }
  tree.version = links.version;
  links.tree = tree;
  return tree;
}

const TAKEN = -1;

const emptyTree = (count: number): WidestTree => ({
  version: -1,
  order: new Int32Array(count),
  placeOf: new Int32Array(count),
  joinGbps: new Float64Array(count),
  parent: new Int32Array(count),
  width: new Float64Array(count),
});

/** The paper's β from one cluster to each: infinite to itself, 0 to clusters that it does not reach. Cost: O(n). */
export function widestFrom(links: LoadedLinks, source: number): Float64Array {
  const { order, placeOf, joinGbps } = widestTree(links);
  const { count } = links.graph;
  const widths = new Float64Array(count);
  const start = placeOf[source] ?? 0;
  widths[source] = Infinity;
  let width = Infinity;
  for (let place = start + 1; place < count; place += 1) {
    width = Math.min(width, joinGbps[place] ?? 0);
    widths[order[place] ?? 0] = width;
  }
  width = Infinity;
  for (let place = start; place > 0; place -= 1) {
    width = Math.min(width, joinGbps[place] ?? 0);
    widths[order[place - 1] ?? 0] = width;
  }
  return widths;
}

/** The width at which all of these clusters reach each other: infinite for one, 0 when two of them do not. Cost: O(n). */
export function bottleneckOf(links: LoadedLinks, clusters: readonly number[]): number {
  const { placeOf, joinGbps } = widestTree(links);
  let first = Infinity;
  let last = -1;
  for (const cluster of clusters) {
    const place = placeOf[cluster] ?? 0;
    first = Math.min(first, place);
    last = Math.max(last, place);
  }
  let width = Infinity;
  for (let place = first + 1; place <= last; place += 1)
    width = Math.min(width, joinGbps[place] ?? 0);
  return width;
}

/** Number of links on the shortest path from the source to each cluster; −1 where there is no path. Cost: O(n + links). */
export function hopsFrom(
  { count, firstNeighbour, neighbours }: LinkGraph,
  source: number,
): Int32Array {
  const hops = new Int32Array(count).fill(-1);
  const reached = new Int32Array(count);
  hops[source] = 0;
  reached[0] = source;
  let open = 1;
  for (let next = 0; next < open; next += 1) {
    const from = reached[next] ?? 0;
    for (let at = firstNeighbour[from] ?? 0; at < (firstNeighbour[from + 1] ?? 0); at += 1) {
      const to = neighbours[at] ?? 0;
      if (hops[to] !== -1) continue;
      hops[to] = (hops[from] ?? 0) + 1;
      reached[open] = to;
      open += 1;
    }
  }
  return hops;
}
