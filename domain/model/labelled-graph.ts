/**
 * @file A model's operators or layers as a labelled directed graph (graphlib): topological order, one cycle, connected components.
 *
 * Nodes are numbered from 0 and may have several edges between two of them. The walks here use queues: graphlib's own algorithms recurse,
 * and graphs of large models are tens of thousands of nodes deep. Ties go to the lower number, then to the earlier edge.
 * Cost: O(nodes + edges), some microseconds each.
 */

import { Graph } from "@dagrejs/graphlib";

export interface NumberedEdge {
  readonly from: number;
  readonly to: number;
}

/** Node labels are numbers; an edge's name is its place in the list. */
export type LabelledGraph = Graph<undefined, number, undefined>;

export function labelledGraph(nodeCount: number, edges: Iterable<NumberedEdge>): LabelledGraph {
  const graph: LabelledGraph = new Graph({ directed: true, multigraph: true });
  for (let node = 0; node < nodeCount; node += 1) graph.setNode(nameOf(node), node);
  let place = 0;
  for (const { from, to } of edges) {
    graph.setEdge(nameOf(from), nameOf(to), undefined, String(place));
    place += 1;
  }
  return graph;
}

/** A prefix keeps JavaScript objects from sorting the names as numbers. */
const nameOf = (node: number): string => `n${node}`;

export interface TopologicalOrder {
  /** Kahn's order; without the nodes on a cycle and behind one. */
  readonly order: readonly number[];
  /** The nodes that are left out, ascending. */
  readonly left: readonly number[];
}

export function topologicalOrder(graph: LabelledGraph): TopologicalOrder {
  const names = graph.nodes();
  const open = new Map(names.map((name) => [name, graph.inEdges(name)?.length ?? 0]));
  const ready = names.filter((name) => open.get(name) === 0);
  for (let at = 0; at < ready.length; at += 1) {
    for (const { w } of graph.outEdges(ready[at] ?? "") ?? []) {
      const left = (open.get(w) ?? 0) - 1;
      open.set(w, left);
      if (left === 0) ready.push(w);
    }
  }
  return {
    order: ready.map((name) => graph.node(name)),
    left: names.filter((name) => (open.get(name) ?? 0) > 0).map((name) => graph.node(name)),
  };
}

/** The nodes along one cycle, with the first one again at the end; undefined when the graph is acyclic. */
export function cycleIn(graph: LabelledGraph): readonly number[] | undefined {
  const { left } = topologicalOrder(graph);
  const [first] = left;
  if (first === undefined) return undefined;
  // Every node left has an edge from another one left, so a backward walk returns to a node.
  const isLeft = new Set(left);
  const places = new Map<number, number>();
  const walked: number[] = [];
  let at = first;
  while (!places.has(at)) {
    places.set(at, walked.length);
    walked.push(at);
    const before = (graph.inEdges(nameOf(at)) ?? []).map(({ v }) => graph.node(v));
    const next = before.find((node) => isLeft.has(node));
    if (next === undefined) return undefined;
    at = next;
  }
  return [...walked.slice(places.get(at)), at].reverse();
}

/** The weakly connected components: each ascending, in the order of their first nodes. */
export function componentsOf(graph: LabelledGraph): readonly (readonly number[])[] {
  const isSeen = new Set<string>();
  return graph.nodes().flatMap((first) => {
    if (isSeen.has(first)) return [];
    const component = [first];
    isSeen.add(first);
    for (let at = 0; at < component.length; at += 1) {
      for (const name of graph.neighbors(component[at] ?? "") ?? []) {
        if (isSeen.has(name)) continue;
        isSeen.add(name);
        component.push(name);
      }
    }
    return [component.map((name) => graph.node(name)).sort((a, b) => a - b)];
  });
}
