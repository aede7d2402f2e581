/**
 * @file A cut that changes node by node: the load of each part, and the edge weight from each node into each part.
 *
 * Cost: O(edges) to open, O(degree) a move.
 */

import { loadsOf, type CutGraph } from "./cut-graph.ts";

/** Changes as nodes move. */
export interface HeldCut {
  readonly parts: Int32Array;
  /** By part. */
  readonly loads: Float64Array;
  /** Weight of the edges from a node into a part, at node × parts + part. */
  readonly pull: Float64Array;
  readonly move: (node: number, to: number) => void;
}

export function holdCut(graph: CutGraph, start: Int32Array, partCount: number): HeldCut {
  const { nodeCount, starts, neighbours, edgeWeights, nodeWeights } = graph;
  const parts = start.slice();
  const loads = loadsOf(graph, parts, partCount);
  const pull = new Float64Array(nodeCount * partCount);
  for (let node = 0; node < nodeCount; node += 1) {
    const end = starts[node + 1] ?? 0;
    for (let at = starts[node] ?? 0; at < end; at += 1) {
      const slot = node * partCount + (parts[neighbours[at] ?? 0] ?? 0);
      pull[slot] = (pull[slot] ?? 0) + (edgeWeights[at] ?? 0);
    }
  }
  const move = (node: number, to: number): void => {
    const from = parts[node] ?? 0;
    const weight = nodeWeights[node] ?? 0;
    loads[from] = (loads[from] ?? 0) - weight;
    loads[to] = (loads[to] ?? 0) + weight;
    parts[node] = to;
    const end = starts[node + 1] ?? 0;
    for (let at = starts[node] ?? 0; at < end; at += 1) {
      const row = (neighbours[at] ?? 0) * partCount;
      const edge = edgeWeights[at] ?? 0;
      pull[row + from] = (pull[row + from] ?? 0) - edge;
      pull[row + to] = (pull[row + to] ?? 0) + edge;
    }
  };
  return { parts, loads, pull, move };
}
