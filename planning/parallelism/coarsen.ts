/**
 * @file Makes a smaller graph whose nodes are groups of nodes: by heavy-edge matching, or by a given grouping.
 *
 * Heavy-edge matching (Karypis and Kumar 1998) visits nodes in random order and joins each with the free neighbour of the heaviest edge,
 * unless the two together weigh more than `heaviest`. A cut of the small graph is a cut of the large one with the same weight.
 * Cost: O(nodes + edges).
 */

import { shuffled, type Random } from "../../lib/random.ts";
import type { CutGraph } from "./cut-graph.ts";

export interface Coarse {
  readonly graph: CutGraph;
  /** The group of each node of the larger graph. */
  readonly groups: Int32Array;
}

export function coarsened(graph: CutGraph, heaviest: number, random: Random): Coarse {
  const { nodeCount, starts, neighbours, edgeWeights, nodeWeights } = graph;
  const groups = new Int32Array(nodeCount).fill(-1);
  let count = 0;
  const order = shuffled(
    Array.from({ length: nodeCount }, (_, node) => node),
    random,
  );
  for (const node of order) {
    if ((groups[node] ?? 0) >= 0) continue;
    let mate = -1;
    let heavy = 0;
    const end = starts[node + 1] ?? 0;
    for (let at = starts[node] ?? 0; at < end; at += 1) {
      const other = neighbours[at] ?? 0;
      const weight = edgeWeights[at] ?? 0;
      const isFree = (groups[other] ?? 0) < 0;
      const joint = (nodeWeights[node] ?? 0) + (nodeWeights[other] ?? 0);
      if (isFree && weight > heavy && joint <= heaviest) {
        mate = other;
        heavy = weight;
      }
    }
    groups[node] = count;
    if (mate >= 0) groups[mate] = count;
    count += 1;
  }
  return { graph: contracted(graph, groups, count), groups };
}

/** One node for each group; edges between two groups are added up. */
export function contracted(graph: CutGraph, groups: Int32Array, count: number): CutGraph {
  const nodeWeights = new Float64Array(count);
  const first = new Int32Array(count + 1);
  for (let node = 0; node < graph.nodeCount; node += 1) {
    const group = groups[node] ?? 0;
    nodeWeights[group] = (nodeWeights[group] ?? 0) + (graph.nodeWeights[node] ?? 0);
    first[group + 1] = (first[group + 1] ?? 0) + 1;
  }
  for (let group = 0; group < count; group += 1)
    first[group + 1] = (first[group + 1] ?? 0) + (first[group] ?? 0);
  const filled = first.slice();
  const byGroup = new Int32Array(graph.nodeCount);
  for (let node = 0; node < graph.nodeCount; node += 1) {
    const group = groups[node] ?? 0;
    byGroup[filled[group] ?? 0] = node;
    filled[group] = (filled[group] ?? 0) + 1;
  }
  const starts = new Int32Array(count + 1);
  const neighbours: number[] = [];
  const edgeWeights: number[] = [];
  const slots = new Int32Array(count).fill(-1);
  for (let group = 0; group < count; group += 1) {
    const begin = neighbours.length;
    for (let at = first[group] ?? 0; at < (first[group + 1] ?? 0); at += 1) {
      const node = byGroup[at] ?? 0;
      const end = graph.starts[node + 1] ?? 0;
      for (let edge = graph.starts[node] ?? 0; edge < end; edge += 1) {
        const other = groups[graph.neighbours[edge] ?? 0] ?? 0;
        if (other === group) continue;
        const slot = slots[other] ?? -1;
        const weight = graph.edgeWeights[edge] ?? 0;
        if (slot >= begin) edgeWeights[slot] = (edgeWeights[slot] ?? 0) + weight;
        else {
          slots[other] = neighbours.length;
          neighbours.push(other);
          edgeWeights.push(weight);
        }
      }
    }
    starts[group + 1] = neighbours.length;
  }
  return {
    nodeCount: count,
    starts,
    neighbours: Int32Array.from(neighbours),
    edgeWeights: Float64Array.from(edgeWeights),
    nodeWeights,
  };
}

/** Groups of nodes that lie in the same part of both cuts and hang together there: where two good cuts agree. */
export function agreement(graph: CutGraph, a: Int32Array, b: Int32Array): Coarse {
  const groups = new Int32Array(graph.nodeCount).fill(-1);
  let count = 0;
  const open: number[] = [];
  for (let seed = 0; seed < graph.nodeCount; seed += 1) {
    if ((groups[seed] ?? 0) >= 0) continue;
    groups[seed] = count;
    open.push(seed);
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      const end = graph.starts[node + 1] ?? 0;
      for (let at = graph.starts[node] ?? 0; at < end; at += 1) {
        const other = graph.neighbours[at] ?? 0;
        if ((groups[other] ?? 0) >= 0 || a[other] !== a[seed] || b[other] !== b[seed]) continue;
        groups[other] = count;
        open.push(other);
      }
    }
    count += 1;
  }
  return { graph: contracted(graph, groups, count), groups };
}

/** A cut of the small graph, on the large one. */
export const projected = ({ groups }: Coarse, parts: Int32Array): Int32Array =>
  Int32Array.from(groups, (group) => parts[group] ?? 0);
