/**
 * @file The state of an annealing walk over cuts: the part of each node, the loads, and the edge weight from each node into each part.
 *
 * Weights are scaled to mean 1, so that temperatures mean the same on every graph. A move keeps all figures up to date.
 * Cost: O(degree) a move or swap; O(1) for a pull or a price; one row of nodes × parts numbers.
 */

import type { CutGraph } from "./cut-graph.ts";

/**
 * Price of overload by a node of mean weight, as a share of the mean weight of the edges at a node. Below a quarter it pays to pile
 * everything into one part; above 1 nothing overloads and the walk gets stuck where capacities are tight.
 */
const OVERLOAD_PRICE = 0.5;

export interface AnnealState {
  /** By node. */
  readonly parts: Int32Array;
  /** Scaled, by node. */
  readonly nodeWeights: Float64Array;
  /** A scaled edge weight is the given one times this. */
  readonly edgeScale: number;
  /** Price of a unit of overload, in scaled edge weights. */
  readonly overloadPrice: number;
  /** Scaled weight of the edges between parts at the start. */
  readonly cut: number;
  /** Scaled overload of all parts at the start. */
  readonly overload: number;
  readonly memberCounts: Int32Array;
  /** The member of a part at a place below its count. */
  readonly memberAt: (part: number, place: number) => number;
  /** Scaled weight of the edges from a node into a part. */
  readonly pullOf: (node: number, part: number) => number;
  /** Increase of the overload when a weight shifts between the parts. */
  readonly priceOf: (from: number, to: number, shift: number) => number;
  /** Weight of the edge between two nodes; 0 without one. */
  readonly between: (a: number, b: number) => number;
  readonly move: (node: number, to: number) => void;
  /** The two nodes exchange their parts. */
  readonly swap: (node: number, other: number) => void;
}

export function annealState(
  graph: CutGraph,
  start: Int32Array,
  {
    capacities,
    priceFactor,
  }: { readonly capacities: readonly number[]; readonly priceFactor: number },
): AnnealState {
  const { nodeCount, starts, neighbours } = graph;
  const partCount = capacities.length;
  const edgeScale = 1 / meanOf(graph.edgeWeights);
  const nodeScale = 1 / meanOf(graph.nodeWeights);
  const edgeWeights = graph.edgeWeights.map((weight) => weight * edgeScale);
  const nodeWeights = graph.nodeWeights.map((weight) => weight * nodeScale);
  const room = Float64Array.from(capacities, (capacity) => capacity * nodeScale * (1 + 1e-12));
  const parts = start.slice();
  const loads = new Float64Array(partCount);
  /** Weight of the edges from a node into each part. */
  const pull = new Float64Array(nodeCount * partCount);
  const members = new Int32Array(nodeCount * partCount);
  const memberCounts = new Int32Array(partCount);
  const places = new Int32Array(nodeCount);

  const enter = (node: number, part: number): void => {
    parts[node] = part;
    const place = memberCounts[part] ?? 0;
    members[part * nodeCount + place] = node;
    places[node] = place;
    memberCounts[part] = place + 1;
  };
  const leave = (node: number, part: number): void => {
    const last = (memberCounts[part] ?? 0) - 1;
    const moved = members[part * nodeCount + last] ?? 0;
    const place = places[node] ?? 0;
    members[part * nodeCount + place] = moved;
    places[moved] = place;
    memberCounts[part] = last;
  };
  const shiftPull = (node: number, from: number, to: number): void => {
    const end = starts[node + 1] ?? 0;
    for (let at = starts[node] ?? 0; at < end; at += 1) {
      const row = (neighbours[at] ?? 0) * partCount;
      const weight = edgeWeights[at] ?? 0;
      pull[row + from] = (pull[row + from] ?? 0) - weight;
      pull[row + to] = (pull[row + to] ?? 0) + weight;
    }
  };
  const shiftLoad = (from: number, to: number, weight: number): void => {
    loads[from] = (loads[from] ?? 0) - weight;
    loads[to] = (loads[to] ?? 0) + weight;
  };

  let cut = 0;
  for (let node = 0; node < nodeCount; node += 1) {
    const part = parts[node] ?? 0;
    loads[part] = (loads[part] ?? 0) + (nodeWeights[node] ?? 0);
    enter(node, part);
    const end = starts[node + 1] ?? 0;
    for (let at = starts[node] ?? 0; at < end; at += 1) {
      const other = parts[neighbours[at] ?? 0] ?? 0;
      const weight = edgeWeights[at] ?? 0;
      pull[node * partCount + other] = (pull[node * partCount + other] ?? 0) + weight;
      if (other !== part) cut += weight / 2;
    }
  }
  let overload = 0;
  for (let part = 0; part < partCount; part += 1)
    overload += Math.max(0, (loads[part] ?? 0) - (room[part] ?? 0));

  return {
    parts,
    nodeWeights,
    edgeScale,
    overloadPrice: (priceFactor * OVERLOAD_PRICE * neighbours.length) / nodeCount,
    cut,
    overload,
    memberCounts,
    memberAt: (part, place) => members[part * nodeCount + place] ?? 0,
    pullOf: (node, part) => pull[node * partCount + part] ?? 0,
    priceOf: (from, to, shift) => {
      const fromOver = (loads[from] ?? 0) - (room[from] ?? 0);
      const toOver = (loads[to] ?? 0) - (room[to] ?? 0);
      return (
        Math.max(0, fromOver - shift) -
        Math.max(0, fromOver) +
        Math.max(0, toOver + shift) -
        Math.max(0, toOver)
      );
    },
    between: (a, b) => {
      const end = starts[a + 1] ?? 0;
      for (let at = starts[a] ?? 0; at < end; at += 1)
        if (neighbours[at] === b) return edgeWeights[at] ?? 0;
      return 0;
    },
    move: (node, to) => {
      const from = parts[node] ?? 0;
      leave(node, from);
      enter(node, to);
      shiftPull(node, from, to);
      shiftLoad(from, to, nodeWeights[node] ?? 0);
    },
    swap: (node, other) => {
      const from = parts[node] ?? 0;
      const to = parts[other] ?? 0;
      leave(node, from);
      leave(other, to);
      enter(node, to);
      enter(other, from);
      shiftPull(node, from, to);
      shiftPull(other, to, from);
      shiftLoad(from, to, (nodeWeights[node] ?? 0) - (nodeWeights[other] ?? 0));
    },
  };
}

export function meanOf(weights: Float64Array): number {
  let sum = 0;
  for (const weight of weights) sum += weight;
  return sum > 0 ? sum / weights.length : 1;
}
