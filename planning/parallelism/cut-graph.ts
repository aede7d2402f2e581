/**
 * @file An undirected weighted graph that is cut into parts of bounded weight: index arrays, and the check of a cut.
 *
 * Every edge is stored at both ends; parallel edges are merged, loops are dropped (they are never cut). A cut counts only after `checkCut`:
 * every node is in a part, no part exceeds its capacity, and the weight of the cut is counted again from the edges.
 */

export interface CutGraph {
  readonly nodeCount: number;
  /** Edges of node v: from `starts[v]` up to `starts[v + 1]` in the two arrays below. */
  readonly starts: Int32Array;
  readonly neighbours: Int32Array;
  readonly edgeWeights: Float64Array;
  readonly nodeWeights: Float64Array;
}

export interface WeightedEdge {
  readonly a: number;
  readonly b: number;
  readonly weight: number;
}

export interface Cut {
  /** The part of each node, from 0. */
  readonly parts: Int32Array;
  /** Σ weight of edges between different parts. */
  readonly weight: number;
}

/** Rounding of floats that were added in another order; relative to the capacity. */
export const LOAD_EPSILON = 1e-9;

export function cutGraphOf(
  nodeWeights: ArrayLike<number>,
  edges: readonly WeightedEdge[],
): CutGraph {
  const nodeCount = nodeWeights.length;
  const merged = new Map<number, number>();
  for (const { a, b, weight } of edges) {
    if (a === b) continue;
    const key = Math.min(a, b) * nodeCount + Math.max(a, b);
    merged.set(key, (merged.get(key) ?? 0) + weight);
  }
  const degrees = new Int32Array(nodeCount + 1);
  for (const key of merged.keys()) {
    const a = Math.floor(key / nodeCount);
    degrees[a] = (degrees[a] ?? 0) + 1;
    degrees[key % nodeCount] = (degrees[key % nodeCount] ?? 0) + 1;
  }
  const starts = new Int32Array(nodeCount + 1);
  for (let at = 0; at < nodeCount; at += 1) starts[at + 1] = (starts[at] ?? 0) + (degrees[at] ?? 0);
  const filled = starts.slice();
  const neighbours = new Int32Array(2 * merged.size);
  const edgeWeights = new Float64Array(2 * merged.size);
  const put = (from: number, to: number, weight: number): void => {
    const at = filled[from] ?? 0;
    filled[from] = at + 1;
    neighbours[at] = to;
    edgeWeights[at] = weight;
  };
  for (const [key, weight] of [...merged].sort(([a], [b]) => a - b)) {
    const a = Math.floor(key / nodeCount);
    put(a, key % nodeCount, weight);
    put(key % nodeCount, a, weight);
  }
  return {
    nodeCount,
    starts,
    neighbours,
    edgeWeights,
    nodeWeights: Float64Array.from(nodeWeights),
  };
}

export function cutWeight(graph: CutGraph, parts: ArrayLike<number>): number {
  let sum = 0;
  for (let node = 0; node < graph.nodeCount; node += 1) {
    const end = graph.starts[node + 1] ?? 0;
    for (let at = graph.starts[node] ?? 0; at < end; at += 1) {
      const other = graph.neighbours[at] ?? 0;
      if (other > node && parts[other] !== parts[node]) sum += graph.edgeWeights[at] ?? 0;
    }
  }
  return sum;
}

export function loadsOf(
  graph: CutGraph,
  parts: ArrayLike<number>,
  partCount: number,
): Float64Array {
  const loads = new Float64Array(partCount);
  for (let node = 0; node < graph.nodeCount; node += 1) {
    const part = parts[node] ?? 0;
    loads[part] = (loads[part] ?? 0) + (graph.nodeWeights[node] ?? 0);
  }
  return loads;
}

/** The fault of a cut; undefined for a valid one. */
export function checkCut(
  graph: CutGraph,
  cut: Cut,
  capacities: readonly number[],
): string | undefined {
  if (cut.parts.length !== graph.nodeCount)
    return `${cut.parts.length} nodes are placed, of ${graph.nodeCount}`;
  for (const [node, part] of cut.parts.entries())
    if (capacities[part] === undefined)
      return `node ${node} is in part ${part} of ${capacities.length}`;
  for (const [part, load] of loadsOf(graph, cut.parts, capacities.length).entries()) {
    const capacity = capacities[part] ?? 0;
    if (load > capacity * (1 + LOAD_EPSILON))
      return `part ${part} weighs ${load}, its capacity is ${capacity}`;
  }
  const weight = cutWeight(graph, cut.parts);
  const isSame = Math.abs(weight - cut.weight) <= 1e-6 * Math.max(1, weight);
  return isSame ? undefined : `the cut weighs ${weight}, not ${cut.weight}`;
}

/**
 * Capacities of parts whose sizes are as `shares`: `slack` above the even share, which is rounded up where all weights are whole
 * (as KaHIP does).
 */
export function capacitiesOf(
  graph: CutGraph,
  shares: readonly number[],
  slack: number,
): readonly number[] {
  const total = graph.nodeWeights.reduce((sum, weight) => sum + weight, 0);
  const isWhole = graph.nodeWeights.every((weight) => Number.isInteger(weight));
  const shareSum = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share) => {
    const even = (total * share) / shareSum;
    return isWhole ? Math.floor((1 + slack) * Math.ceil(even - 1e-9) + 1e-9) : (1 + slack) * even;
  });
}
