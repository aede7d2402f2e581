/**
 * @file Groups nodes by joining edges one after another while no group gets too heavy (Kruskal's method, without the tree).
 *
 * Cost: almost O(edges); the caller gives the order of the edges.
 */

import { contracted, type Coarse } from "./coarsen.ts";
import type { CutGraph, WeightedEdge } from "./cut-graph.ts";

export interface JoinLimits {
  /** Weight that no group may exceed. */
  readonly most: number;
  /** The joining ends at this number of groups. */
  readonly fewest?: number;
  /** Only nodes of one part are joined. */
  readonly within?: Int32Array;
}

/** Each edge once, in the order of its lower node. */
export function edgesOf({ nodeCount, starts, neighbours, edgeWeights }: CutGraph): WeightedEdge[] {
  const edges: WeightedEdge[] = [];
  for (let a = 0; a < nodeCount; a += 1)
    for (let at = starts[a] ?? 0; at < (starts[a + 1] ?? 0); at += 1) {
      const b = neighbours[at] ?? 0;
      if (b > a) edges.push({ a, b, weight: edgeWeights[at] ?? 0 });
    }
  return edges;
}

export function joinedEdges(
  graph: CutGraph,
  edges: Iterable<WeightedEdge>,
  { most, fewest = 1, within }: JoinLimits,
): Coarse {
  const parents = Int32Array.from({ length: graph.nodeCount }, (_, node) => node);
  const loads = graph.nodeWeights.slice();
  const root = (node: number): number => {
    let at = node;
    while (parents[at] !== at) {
      parents[at] = parents[parents[at] ?? 0] ?? 0;
      at = parents[at] ?? 0;
    }
    return at;
  };
  let count = graph.nodeCount;
  for (const { a, b } of edges) {
    if (count <= fewest) break;
    if (within !== undefined && within[a] !== within[b]) continue;
    const [one, other] = [root(a), root(b)];
    const joint = (loads[one] ?? 0) + (loads[other] ?? 0);
    // A join that is too heavy is left out: that edge is then one that must be cut somewhere.
    if (one === other || joint > most) continue;
    parents[other] = one;
    loads[one] = joint;
    count -= 1;
  }
  const ids = new Map<number, number>();
  const groups = Int32Array.from({ length: graph.nodeCount }, (_, node) => {
    const own = root(node);
    const known = ids.get(own);
    if (known !== undefined) return known;
    ids.set(own, ids.size);
    return ids.size - 1;
  });
  return { graph: contracted(graph, groups, ids.size), groups };
}
