/**
 * @file The last polish of a cut: repeats the best move or swap that fits until none makes the cut lighter.
 *
 * Deterministic; it keeps every capacity and never worsens a cut. It ends in a local optimum of single moves and of swaps of two nodes.
 * Cost: O(n × parts) for a round of moves; for a round of swaps O(n × the nodes whose swap with the best node of another part could gain).
 * Swaps are left out above `SWAP_NODES` nodes.
 */

import { LOAD_EPSILON, type CutGraph } from "./cut-graph.ts";
import { holdCut } from "./held-cut.ts";

const SWAP_NODES = 1_500;
const MIN_GAIN = 1e-9;

export function descendCut(
  graph: CutGraph,
  start: Int32Array,
  capacities: readonly number[],
): Int32Array {
  const { nodeCount, edgeWeights, nodeWeights } = graph;
  const partCount = capacities.length;
  const { parts, loads, pull, move } = holdCut(graph, start, partCount);
  const total = edgeWeights.reduce((sum, weight) => sum + weight, 0);
  const least = MIN_GAIN * Math.max(total, Number.MIN_VALUE);
  while (moveRound() || (nodeCount <= SWAP_NODES && swapRound())) continue;
  return parts;

  function fits(part: number, added: number): boolean {
    return (loads[part] ?? 0) + added <= (capacities[part] ?? 0) * (1 + LOAD_EPSILON);
  }

  function moveRound(): boolean {
    let isBetter = false;
    for (let node = 0; node < nodeCount; node += 1) {
      const from = parts[node] ?? 0;
      const row = node * partCount;
      const held = pull[row + from] ?? 0;
      let chosen = -1;
      let most = least;
      for (let to = 0; to < partCount; to += 1) {
        const gain = (pull[row + to] ?? 0) - held;
        if (to !== from && gain > most && fits(to, nodeWeights[node] ?? 0)) {
          chosen = to;
          most = gain;
        }
      }
      if (chosen < 0) continue;
      move(node, chosen);
      isBetter = true;
    }
    return isBetter;
  }

  function swapRound(): boolean {
    let isBetter = false;
    let most = mostGains();
    const worth = new Uint8Array(partCount);
    for (let a = 0; a < nodeCount; a += 1) {
      if (!mayGain(a, most, worth)) continue;
      for (let b = a + 1; b < nodeCount; b += 1) {
        const [partA = 0, partB = 0] = [parts[a], parts[b]];
        if (worth[partB] === 0) continue;
        const gain =
          (pull[a * partCount + partB] ?? 0) -
          (pull[a * partCount + partA] ?? 0) +
          (pull[b * partCount + partA] ?? 0) -
          (pull[b * partCount + partB] ?? 0);
        if (gain <= least) continue;
        const added = (nodeWeights[b] ?? 0) - (nodeWeights[a] ?? 0);
        if (!fits(partA, added) || !fits(partB, -added)) continue;
        if (gain - 2 * between(graph, a, b) <= least) continue;
        move(a, partB);
        move(b, partA);
        most = mostGains();
        isBetter = true;
        mayGain(a, most, worth);
      }
    }
    return isBetter;
  }

  /** By part and other part: the most that moving one node of the first into the second gains. */
  function mostGains(): Float64Array {
    const most = new Float64Array(partCount * partCount).fill(-Infinity);
    for (let node = 0; node < nodeCount; node += 1) {
      const from = parts[node] ?? 0;
      const held = pull[node * partCount + from] ?? 0;
      for (let to = 0; to < partCount; to += 1) {
        const gain = (pull[node * partCount + to] ?? 0) - held;
        const slot = from * partCount + to;
        if (to !== from && gain > (most[slot] ?? 0)) most[slot] = gain;
      }
    }
    return most;
  }

  /** Whether a swap of the node with the best one of another part might be worth it, and of which (`worth`, written anew); rounding is allowed for. */
  function mayGain(node: number, most: Float64Array, worth: Uint8Array): boolean {
    const from = parts[node] ?? 0;
    const held = pull[node * partCount + from] ?? 0;
    let isAny = false;
    for (let to = 0; to < partCount; to += 1) {
      const gain = (pull[node * partCount + to] ?? 0) - held;
      const isWorth = to !== from && gain + (most[to * partCount + from] ?? 0) > least / 2;
      worth[to] = Number(isWorth);
      isAny ||= isWorth;
    }
    return isAny;
  }
}

/** Weight of the edge between two nodes; 0 where there is none. */
function between({ starts, neighbours, edgeWeights }: CutGraph, a: number, b: number): number {
  const end = starts[a + 1] ?? 0;
  for (let at = starts[a] ?? 0; at < end; at += 1)
    if (neighbours[at] === b) return edgeWeights[at] ?? 0;
  return 0;
}
