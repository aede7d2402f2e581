/**
 * @file Improves a cut by simulated annealing over moves and swaps, with parts allowed to be too heavy at a price.
 *
 * A step takes a random node and a part, mostly one that a neighbour is in, and moves the node there, or swaps it with a random node
 * of that part; it is accepted by Metropolis' rule on cut + price × overload. Overload must be possible on the way: where capacities
 * leave no slack a single move never fits, and swaps alone explore slowly (Johnson et al. 1989 find the same). The lightest cut that
 * overloads nothing is kept. Weights are scaled to mean 1, so that temperatures mean the same on every graph.
 * Cost: O(degree) for an accepted step, O(1) for a refused one, one row of n × parts numbers kept up to date.
 */

import type { Random } from "../../lib/random.ts";
import type { CutGraph } from "./cut-graph.ts";

export interface Schedule {
  readonly steps: number;
  /** In mean edge weights. */
  readonly hottest: number;
  readonly coldest: number;
}

export interface Annealed {
  /** The lightest cut seen that overloads no part. */
  readonly best: Int32Array | undefined;
  readonly bestWeight: number;
  /** Where the walk ended, maybe overloaded. */
  readonly last: Int32Array;
  readonly accepted: number;
}

/**
 * Price of overload by a node of mean weight, as a share of the mean weight of the edges at a node. Below a quarter it pays to pile
 * everything into one part; above 1 nothing overloads and the walk gets stuck where capacities are tight.
 */
const OVERLOAD_PRICE = 0.5;
/** Of the steps, those that try a swap. */
const SWAP_SHARE = 0.3;
/** Of the steps, those that look at a neighbour's part and not at any. */
const NEAR_SHARE = 0.85;

export interface AnnealSetting {
  readonly capacities: readonly number[];
  readonly schedule: Schedule;
  readonly random: Random;
  /** Times the price of overload; 1 when absent. Where a few heavy nodes decide, a higher one keeps them apart while it is hot. */
  readonly priceFactor?: number;
}

export function annealCut(
  graph: CutGraph,
  start: Int32Array,
  { capacities, schedule, random, priceFactor = 1 }: AnnealSetting,
): Annealed {
  const { nodeCount, starts, neighbours } = graph;
  const partCount = capacities.length;
  const edgeScale = 1 / meanOf(graph.edgeWeights);
  const nodeScale = 1 / meanOf(graph.nodeWeights);
  const edgeWeights = graph.edgeWeights.map((weight) => weight * edgeScale);
  const nodeWeights = graph.nodeWeights.map((weight) => weight * nodeScale);
  const room = Float64Array.from(capacities, (capacity) => capacity * nodeScale * (1 + 1e-12));
  const overloadPrice = (priceFactor * OVERLOAD_PRICE * graph.neighbours.length) / nodeCount;
  const parts = start.slice();
  const loads = new Float64Array(partCount);
  /** Weight of the edges from a node into each part. */
  const pull = new Float64Array(nodeCount * partCount);
  const members = new Int32Array(nodeCount * partCount);
  const memberCounts = new Int32Array(partCount);
  const places = new Int32Array(nodeCount);
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

  let best: Int32Array | undefined;
  let bestCut = Infinity;
  let isBestNoted = false;
  noteIfBest();

  let draw = (random.below(0x7fffffff) | 1) >>> 0;
  const unit = (): number => {
    // xorshift32: this loop draws three numbers a step and must not pay for better ones.
    draw ^= draw << 13;
    draw ^= draw >>> 17;
    draw ^= draw << 5;
    return (draw >>> 0) / 4294967296;
  };

  const { steps, hottest } = schedule;
  const coldest = schedule.coldest * lightness(graph.edgeWeights);
  const cooling = Math.pow(coldest / hottest, 256 / Math.max(256, steps));
  let temperature = hottest;
  let accepted = 0;
  for (let step = 0; step < steps; step += 1) {
    if ((step & 255) === 255) temperature *= cooling;
    const node = (unit() * nodeCount) | 0;
    const from = parts[node] ?? 0;
    const first = starts[node] ?? 0;
    const degree = (starts[node + 1] ?? 0) - first;
    const choice = unit();
    const to =
      degree > 0 && choice < NEAR_SHARE
        ? (parts[neighbours[(first + (choice / NEAR_SHARE) * degree) | 0] ?? 0] ?? 0)
        : (unit() * partCount) | 0;
    if (to === from) continue;
    const weight = nodeWeights[node] ?? 0;
    const row = node * partCount;
    const gainOne = (pull[row + to] ?? 0) - (pull[row + from] ?? 0);
    const count = memberCounts[to] ?? 0;
    const pick = unit();
    if (pick < SWAP_SHARE && count > 0) {
      const other = members[to * nodeCount + (((pick / SWAP_SHARE) * count) | 0)] ?? 0;
      const otherRow = other * partCount;
      let gain = gainOne + (pull[otherRow + from] ?? 0) - (pull[otherRow + to] ?? 0);
      const shift = weight - (nodeWeights[other] ?? 0);
      const price = shift === 0 ? 0 : priceOf(from, to, shift);
      // The edge between the two stays cut; only then is it worth looking for.
      if (gain - price * overloadPrice <= -12 * temperature) continue;
      gain -= 2 * between(node, other);
      if (!isAccepted(gain - overloadPrice * price)) continue;
      leave(node, from);
      leave(other, to);
      enter(node, to);
      enter(other, from);
      shiftPull(node, from, to);
      shiftPull(other, to, from);
      loads[from] = (loads[from] ?? 0) - shift;
      loads[to] = (loads[to] ?? 0) + shift;
      overload += price;
      cut -= gain;
    } else {
      const price = priceOf(from, to, weight);
      if (!isAccepted(gainOne - overloadPrice * price)) continue;
      leave(node, from);
      enter(node, to);
      shiftPull(node, from, to);
      loads[from] = (loads[from] ?? 0) - weight;
      loads[to] = (loads[to] ?? 0) + weight;
      overload += price;
      cut -= gainOne;
    }
    accepted += 1;
    if (overload <= 1e-9) {
      if (cut < bestCut - 1e-9) {
        bestCut = cut;
        isBestNoted = false;
      }
      if (!isBestNoted && cut <= bestCut + 1e-9) noteIfBest();
    }
  }
  return { best, bestWeight: bestCut / edgeScale, last: parts, accepted };

  function noteIfBest(): void {
    if (overload > 1e-9 || cut > bestCut + 1e-9) return;
    best = parts.slice();
    bestCut = cut;
    isBestNoted = true;
  }

  function isAccepted(gain: number): boolean {
    return gain >= 0 || unit() < Math.exp(gain / temperature);
  }

  /** How much overload a shift of weight adds. */
  function priceOf(from: number, to: number, shift: number): number {
    const fromOver = (loads[from] ?? 0) - (room[from] ?? 0);
    const toOver = (loads[to] ?? 0) - (room[to] ?? 0);
    return (
      Math.max(0, fromOver - shift) -
      Math.max(0, fromOver) +
      Math.max(0, toOver + shift) -
      Math.max(0, toOver)
    );
  }

  function between(a: number, b: number): number {
    const end = starts[a + 1] ?? 0;
    for (let at = starts[a] ?? 0; at < end; at += 1)
      if (neighbours[at] === b) return edgeWeights[at] ?? 0;
    return 0;
  }

  function shiftPull(node: number, from: number, to: number): void {
    const end = starts[node + 1] ?? 0;
    for (let at = starts[node] ?? 0; at < end; at += 1) {
      const row = (neighbours[at] ?? 0) * partCount;
      const weight = edgeWeights[at] ?? 0;
      pull[row + from] = (pull[row + from] ?? 0) - weight;
      pull[row + to] = (pull[row + to] ?? 0) + weight;
    }
  }

  function enter(node: number, part: number): void {
    parts[node] = part;
    const place = memberCounts[part] ?? 0;
    members[part * nodeCount + place] = node;
    places[node] = place;
    memberCounts[part] = place + 1;
  }

  function leave(node: number, part: number): void {
    const last = (memberCounts[part] ?? 0) - 1;
    const moved = members[part * nodeCount + last] ?? 0;
    const place = places[node] ?? 0;
    members[part * nodeCount + place] = moved;
    places[moved] = place;
    memberCounts[part] = last;
  }
}

function meanOf(weights: Float64Array): number {
  let sum = 0;
  for (const weight of weights) sum += weight;
  return sum > 0 ? sum / weights.length : 1;
}

/** Where a few edges carry most of the weight, most are far lighter than the mean: it must get as cold as they are light. */
export function lightness(weights: Float64Array): number {
  const sorted = weights.slice().sort();
  const share = (sorted[sorted.length >> 1] ?? 0) / meanOf(weights);
  return share < 0.5 ? Math.max(1e-3, share) : 1;
}
