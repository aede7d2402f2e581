/**
 * @file The labelled graph of a fleet's clusters and the links between them (graphlib), and the sets of clusters that reach each other.
 *
 * Undirected: a link counts for both directions, by the weaker figures where a fleet names both, because a collective sends both ways.
 * Links to unknown clusters and from a cluster to itself are left out. Searches run on index arrays made from this graph.
 * Cost: O(clusters + links), a few microseconds each.
 */

import { alg, Graph } from "@dagrejs/graphlib";
import type { ClusterId } from "../values/ids.ts";
import type { Link } from "./fleet.ts";

/** Number of the cluster, in the order of the fleet. */
type ClusterLabel = number;

export interface LinkLabel {
  readonly bandwidthGbps: number;
  readonly latencyMs: number;
  readonly usdPerGB: number;
}

export type ClusterGraph = Graph<string, ClusterLabel, LinkLabel>;

export function clusterGraph(clusters: readonly ClusterId[], links: readonly Link[]): ClusterGraph {
  const graph: ClusterGraph = new Graph({ directed: false });
  for (const [number, cluster] of clusters.entries()) graph.setNode(cluster, number);
  for (const { from, to, bandwidthGbps, latencyMs, usdPerGB = 0 } of links) {
    if (from === to || !graph.hasNode(from) || !graph.hasNode(to)) continue;
    const label = { bandwidthGbps, latencyMs, usdPerGB };
    const known = graph.hasEdge(from, to) ? graph.edge(from, to) : undefined;
    graph.setEdge(from, to, known === undefined ? label : weaker(known, label));
  }
  return graph;
}

const weaker = (a: LinkLabel, b: LinkLabel): LinkLabel => ({
  bandwidthGbps: Math.min(a.bandwidthGbps, b.bandwidthGbps),
  latencyMs: Math.max(a.latencyMs, b.latencyMs),
  usdPerGB: Math.max(a.usdPerGB, b.usdPerGB),
});

/** Links by the numbers of their ends, each once. */
export const numberedLinks = (
  graph: ClusterGraph,
): readonly { readonly a: number; readonly b: number; readonly label: LinkLabel }[] =>
  graph.edges().map((edge) => ({
    a: graph.node(edge.v),
    b: graph.node(edge.w),
    label: graph.edge(edge),
  }));

/** The connected components by cluster numbers: each ascending, in the order of their first clusters. */
export const reachableSets = (graph: ClusterGraph): readonly (readonly number[])[] =>
  alg
    .components(graph)
    .map((names) => names.map((name) => graph.node(name)).sort((a, b) => a - b))
    .sort(([a = 0], [b = 0]) => a - b);
