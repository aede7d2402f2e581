/**
 * @file Makes a cut that overloads parts hold again, at little more weight: the move or swap that costs least for the overload it takes away, again and again.
 *
 * Where capacities leave no slack, annealing ends a unit or two off more often than not; a swap of two nodes whose weights differ by
 * that much mends it. Undefined when no move and no swap takes any overload away. Cost: O(edges + n × nodes of overloaded parts) for each round.
 */

import { LOAD_EPSILON, loadsOf, type CutGraph } from "./cut-graph.ts";

const ROUNDS = 400;

export function mendCut(
  graph: CutGraph,
  start: Int32Array,
  capacities: readonly number[],
): Int32Array | undefined {
  const { nodeCount, starts, neighbours, edgeWeights, nodeWeights } = graph;
  const parts = start.slice();
  const loads = loadsOf(graph, parts, capacities.length);
  const over = (part: number, added: number): number =>
    Math.max(0, (loads[part] ?? 0) + added - (capacities[part] ?? 0) * (1 + LOAD_EPSILON));
  for (let round = 0; round < ROUNDS; round += 1) {
    if (capacities.every((_, part) => over(part, 0) === 0)) return parts;
    let chosen: { readonly a: number; readonly b: number; readonly to: number } | undefined;
    let least = Infinity;
    const pull = pulls();
    for (let a = 0; a < nodeCount; a += 1) {
      const from = parts[a] ?? 0;
      if (over(from, 0) === 0) continue;
      const weight = nodeWeights[a] ?? 0;
      const row = a * capacities.length;
      const pulled = (part: number): number => pull[row + part] ?? 0;
      for (const to of capacities.keys()) {
        if (to === from) continue;
        const relief = over(from, 0) + over(to, 0) - over(from, -weight) - over(to, weight);
        const price = (pulled(from) - pulled(to)) / relief;
        if (relief <= 0 || price >= least) continue;
        least = price;
        chosen = { a, b: -1, to };
      }
      for (let b = 0; b < nodeCount; b += 1) {
        const to = parts[b] ?? 0;
        const shift = weight - (nodeWeights[b] ?? 0);
        if (to === from || shift <= 0) continue;
        const relief = over(from, 0) + over(to, 0) - over(from, -shift) - over(to, shift);
        if (relief <= 0) continue;
        const back = b * capacities.length;
        const price =
          (pulled(from) - pulled(to) + (pull[back + to] ?? 0) - (pull[back + from] ?? 0)) / relief;
        if (price >= least) continue;
        least = price;
        chosen = { a, b, to };
      }
    }
    if (chosen === undefined) return undefined;
    const from = parts[chosen.a] ?? 0;
    place(chosen.a, chosen.to);
    if (chosen.b >= 0) place(chosen.b, from);
  }
  return undefined;

  function place(node: number, to: number): void {
    const from = parts[node] ?? 0;
    const weight = nodeWeights[node] ?? 0;
    loads[from] = (loads[from] ?? 0) - weight;
    loads[to] = (loads[to] ?? 0) + weight;
    parts[node] = to;
  }

  /** Weight of the edges from each node into each part. */
  function pulls(): Float64Array {
    const pull = new Float64Array(nodeCount * capacities.length);
    for (let node = 0; node < nodeCount; node += 1) {
      const end = starts[node + 1] ?? 0;
      for (let at = starts[node] ?? 0; at < end; at += 1) {
        const slot = node * capacities.length + (parts[neighbours[at] ?? 0] ?? 0);
        pull[slot] = (pull[slot] ?? 0) + (edgeWeights[at] ?? 0);
      }
    }
    return pull;
  }
}
