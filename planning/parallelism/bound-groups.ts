/**
 * @file Groups of nodes that no good cut separates: nodes are joined along the heaviest edges while the groups still pack into the parts.
 *
 * Where edges differ by factors of thousands, the lightest cut separates no heavy edge if it can avoid it, and a walk that prices edges by
 * their mean cannot tell the light ones apart. So edges are joined from the heaviest down (Kruskal), all above a threshold; the search finds
 * the lowest threshold at which the groups still pack. Annealing then works on the groups, whose edges are all light.
 * Cost: O(edges log edges), and a packing for each of about log(thresholds) trials. Ties go to the edge of the lower node.
 */

import type { Random } from "../../lib/random.ts";
import type { Coarse } from "./coarsen.ts";
import type { CutGraph, WeightedEdge } from "./cut-graph.ts";
import { edgesOf, joinedEdges } from "./joined-edges.ts";
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
  const edges = edgesOf(graph).sort((x, y) => y.weight - x.weight || x.a - y.a || x.b - y.b);
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

interface Threshold {
  readonly capacities: readonly number[];
  readonly random: Random;
  readonly threshold: number;
  readonly most: number;
}

function boundAbove(
  graph: CutGraph,
  edges: readonly WeightedEdge[],
  { capacities, random, threshold, most }: Threshold,
): Bound | undefined {
  const heavy = edges.filter(({ weight }) => weight >= threshold);
  const { graph: small, groups } = joinedEdges(graph, heavy, { most });
  const packed = packParts(small, capacities, random);
  return packed.kind === "packed" ? { graph: small, groups, parts: packed.parts } : undefined;
}
