/**
 * @file Groups of nodes that no good cut separates: heaviest edges first, nodes are joined while the groups still pack into the parts.
 *
 * Where edges differ by factors of thousands the lightest cut separates no heavy edge if it can avoid it, and a walk that prices edges by their mean
 * cannot see which of the light ones to take. So edges are joined from the heaviest down (Kruskal), all above a threshold; the lowest threshold is
 * sought at which the groups still pack. Annealing then works on the groups, whose edges are all light.
 * Cost: O(edges log edges) and a packing for each threshold tried, about the logarithm of their number. Ties go to the edge of the lower node.
 */

import type { Random } from "../../lib/random.ts";
import { contracted, type Coarse } from "./coarsen.ts";
import type { CutGraph } from "./cut-graph.ts";
import { packParts } from "./pack-parts.ts";

export interface Bound extends Coarse {
  /** A packing of the groups. */
  readonly parts: Int32Array;
}

/** `mostJoint` is the weight that no group may exceed, as a share of the largest capacity. */
export function boundGroups(
  graph: CutGraph,
  capacities: readonly number[],
  { random, mostJoint }: { readonly random: Random; readonly mostJoint: number },
): Bound | undefined {
  const edges = edgesOf(graph);
  const thresholds = [...new Set(edges.map(({ weight }) => weight))].sort((a, b) => b - a);
  let [sound, broken] = [-1, thresholds.length];
  let best: Bound | undefined;
  while (broken - sound > 1) {
    const middle = (sound + broken) >> 1;
    const found = boundAbove(graph, edges, {
      capacities,
      random: random.stream(`threshold-${middle}`),
      threshold: thresholds[middle] ?? Infinity,
      most: mostJoint * Math.max(...capacities),
    });
    if (found === undefined) broken = middle;
    else [sound, best] = [middle, found];
  }
  return best;
}

interface HeavyEdge {
  readonly a: number;
  readonly b: number;
  readonly weight: number;
}

function edgesOf({ nodeCount, starts, neighbours, edgeWeights }: CutGraph): readonly HeavyEdge[] {
  const edges: HeavyEdge[] = [];
  for (let a = 0; a < nodeCount; a += 1)
    for (let at = starts[a] ?? 0; at < (starts[a + 1] ?? 0); at += 1) {
      const b = neighbours[at] ?? 0;
      if (b > a) edges.push({ a, b, weight: edgeWeights[at] ?? 0 });
    }
  return edges.sort((x, y) => y.weight - x.weight || x.a - y.a || x.b - y.b);
}

interface Threshold {
  readonly capacities: readonly number[];
  readonly random: Random;
  readonly threshold: number;
  readonly most: number;
}

function boundAbove(
  graph: CutGraph,
  edges: readonly HeavyEdge[],
  { capacities, random, threshold, most }: Threshold,
): Bound | undefined {
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
  for (const { a, b, weight } of edges) {
    if (weight < threshold) break;
    const [one, other] = [root(a), root(b)];
    const joint = (loads[one] ?? 0) + (loads[other] ?? 0);
    // A join that is too heavy is left out: that edge is then one that must be cut somewhere.
    if (one === other || joint > most) continue;
    parents[other] = one;
    loads[one] = joint;
  }
  const ids = new Map<number, number>();
  const groups = Int32Array.from({ length: graph.nodeCount }, (_, node) => {
    const own = root(node);
    const known = ids.get(own);
    if (known !== undefined) return known;
    ids.set(own, ids.size);
    return ids.size - 1;
  });
  const small = contracted(graph, groups, ids.size);
  const packed = packParts(small, capacities, random);
  return packed.kind === "packed" ? { graph: small, groups, parts: packed.parts } : undefined;
}
