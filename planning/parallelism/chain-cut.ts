/**
 * @file Cuts an order of a graph's nodes into intervals, one a part, with the least edge weight between them: a start for near-chains.
 *
 * A dynamic program over (nodes placed, parts used): parts of equal capacity are one kind, and a state counts the used parts of each kind.
 * Exact for the order where states are few enough; otherwise parts are used in the given sequence. The orders are that of the input
 * (graphs of models are written in the order of execution) and one that grows from an end of the graph, always by the node with the most
 * edges back.
 * Cost: O(states × nodes × nodes of the largest part), at most `MOST_RELAXATIONS`. Ties go to the first found.
 */

import { LOAD_EPSILON, type CutGraph } from "./cut-graph.ts";

const MOST_RELAXATIONS = 12_000_000;

/** The part of each node; undefined when no such intervals hold. */
export function chainCut(
  graph: CutGraph,
  order: Int32Array,
  capacities: readonly number[],
): Int32Array | undefined {
  const { nodeCount } = graph;
  const kinds = kindsOf(capacities, nodeCount);
  const strides: number[] = [];
  let stateCount = 1;
  for (const { members } of kinds) {
    strides.push(stateCount);
    stateCount *= members.length + 1;
  }
  const least = new Float64Array((nodeCount + 1) * stateCount).fill(Infinity);
  const begins = new Int32Array((nodeCount + 1) * stateCount).fill(-1);
  const used = new Int16Array((nodeCount + 1) * stateCount).fill(-1);
  least[0] = 0;
  const rank = new Int32Array(nodeCount);
  for (const [at, node] of order.entries()) rank[node] = at;
  const largest = Math.max(...capacities) * (1 + LOAD_EPSILON);
  for (let from = 0; from < nodeCount; from += 1) {
    const open: number[] = [];
    for (let state = 0; state < stateCount; state += 1)
      if ((least[from * stateCount + state] ?? Infinity) < Infinity) open.push(state);
    if (open.length === 0) continue;
    let load = 0;
    let back = 0;
    for (let to = from + 1; to <= nodeCount; to += 1) {
      const node = order[to - 1] ?? 0;
      load += graph.nodeWeights[node] ?? 0;
      if (load > largest) break;
      back += leadingBack(node, from);
      for (const [kind, { capacity, members, isSequence }] of kinds.entries()) {
        if (!isSequence && load > capacity * (1 + LOAD_EPSILON)) continue;
        const stride = strides[kind] ?? 1;
        for (const state of open) {
          const count = Math.floor(state / stride) % (members.length + 1);
          const own = members[count];
          if (own === undefined) continue;
          if (isSequence && load > (capacities[own] ?? 0) * (1 + LOAD_EPSILON)) continue;
          const slot = to * stateCount + state + stride;
          const weight = (least[from * stateCount + state] ?? Infinity) + back;
          if (weight >= (least[slot] ?? Infinity)) continue;
          least[slot] = weight;
          begins[slot] = from;
          used[slot] = kind;
        }
      }
    }
  }
  let state = -1;
  const end = nodeCount * stateCount;
  for (let each = 0; each < stateCount; each += 1)
    if ((least[end + each] ?? Infinity) < (state < 0 ? Infinity : (least[end + state] ?? 0)))
      state = each;
  if (state < 0) return undefined;
  const parts = new Int32Array(nodeCount);
  for (let to = nodeCount; to > 0;) {
    const slot = to * stateCount + state;
    const [from, kind] = [begins[slot] ?? 0, used[slot] ?? 0];
    state -= strides[kind] ?? 1;
    const { members } = kinds[kind] ?? { members: [0] };
    const count = Math.floor(state / (strides[kind] ?? 1)) % (members.length + 1);
    for (let at = from; at < to; at += 1) parts[order[at] ?? 0] = members[count] ?? 0;
    to = from;
  }
  return parts;

  /** Weight of a node's edges to nodes before `from`. */
  function leadingBack(node: number, from: number): number {
    let sum = 0;
    const last = graph.starts[node + 1] ?? 0;
    for (let at = graph.starts[node] ?? 0; at < last; at += 1)
      if ((rank[graph.neighbours[at] ?? 0] ?? 0) < from) sum += graph.edgeWeights[at] ?? 0;
    return sum;
  }
}

interface Kind {
  readonly capacity: number;
  readonly members: readonly number[];
  /** Members differ in capacity and are used in this sequence. */
  readonly isSequence: boolean;
}

function kindsOf(capacities: readonly number[], nodeCount: number): readonly Kind[] {
  const byCapacity = new Map<number, number[]>();
  for (const [part, capacity] of capacities.entries())
    byCapacity.set(capacity, [...(byCapacity.get(capacity) ?? []), part]);
  const kinds = [...byCapacity].map(([capacity, members]) => ({
    capacity,
    members,
    isSequence: false,
  }));
  const total = capacities.reduce((sum, capacity) => sum + capacity, 0);
  const stateCount = kinds.reduce((product, { members }) => product * (members.length + 1), 1);
  const reach = (nodeCount * Math.max(...capacities)) / total;
  return stateCount * nodeCount * reach * kinds.length <= MOST_RELAXATIONS
    ? kinds
    : [{ capacity: Math.max(...capacities), members: [...capacities.keys()], isSequence: true }];
}

/** Starts at a node far from all others and always adds the node with the most edge weight back relative to that ahead. */
export function grownOrder(graph: CutGraph): Int32Array {
  const { nodeCount, starts, neighbours, edgeWeights } = graph;
  const order = new Int32Array(nodeCount);
  const isPlaced = new Uint8Array(nodeCount);
  const gain = new Float64Array(nodeCount);
  for (let node = 0; node < nodeCount; node += 1)
    for (let at = starts[node] ?? 0; at < (starts[node + 1] ?? 0); at += 1)
      gain[node] = (gain[node] ?? 0) - (edgeWeights[at] ?? 0);
  const open = new Set<number>();
  for (let count = 0; count < nodeCount; count += 1) {
    let chosen = -1;
    for (const node of open)
      if (
        chosen < 0 ||
        (gain[node] ?? 0) > (gain[chosen] ?? 0) ||
        (gain[node] === gain[chosen] && node < chosen)
      )
        chosen = node;
    if (chosen < 0) chosen = farthest(isPlaced.indexOf(0));
    open.delete(chosen);
    order[count] = chosen;
    isPlaced[chosen] = 1;
    for (let at = starts[chosen] ?? 0; at < (starts[chosen + 1] ?? 0); at += 1) {
      const other = neighbours[at] ?? 0;
      if (isPlaced[other] === 1) continue;
      gain[other] = (gain[other] ?? 0) + 2 * (edgeWeights[at] ?? 0);
      open.add(other);
    }
  }
  return order;

  /** Twice breadth first: the last node reached from the last node reached. */
  function farthest(start: number): number {
    let last = start;
    for (let round = 0; round < 2; round += 1) {
      const seen = new Set([last]);
      for (const node of seen) {
        last = node;
        for (let at = starts[node] ?? 0; at < (starts[node + 1] ?? 0); at += 1)
          seen.add(neighbours[at] ?? 0);
      }
    }
    return last;
  }
}
