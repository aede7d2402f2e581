/**
 * @file Improves a cut by simulated annealing over moves and swaps, with parts allowed to be too heavy at a price.
 *
 * A step draws a random node and a part, mostly the part of one of its neighbours. It moves the node there, or swaps it with a random
 * node of that part; Metropolis' rule on cut + price × overload accepts or refuses the step. The walk must be able to overload parts:
 * where capacities leave no slack a single move never fits, and swaps alone explore slowly (Johnson et al. 1989 find the same). The
 * lightest cut without overload is kept. Cost: O(degree) for an accepted step, O(1) for a refused one (anneal-state.ts).
 */

import type { Random } from "../../lib/random.ts";
import { annealState, meanOf } from "./anneal-state.ts";
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
  /** The end of the walk, possibly overloaded. */
  readonly last: Int32Array;
  readonly accepted: number;
}

/** Share of the steps that try a swap. */
const SWAP_SHARE = 0.3;
/** Share of the steps that consider a neighbour's part instead of any part. */
const NEAR_SHARE = 0.85;
/** The temperature falls after this number of steps, a power of two. */
const COOLING_PERIOD = 256;
const EPSILON = 1e-9;

export interface AnnealSetting {
  readonly capacities: readonly number[];
  readonly schedule: Schedule;
  readonly random: Random;
  /** Times the price of overload; 1 when absent. Where a few heavy nodes decide, a higher price keeps them apart while it is hot. */
  readonly priceFactor?: number;
}

export function annealCut(
  graph: CutGraph,
  start: Int32Array,
  { capacities, schedule, random, priceFactor = 1 }: AnnealSetting,
): Annealed {
  const { nodeCount, starts, neighbours } = graph;
  const partCount = capacities.length;
  const state = annealState(graph, start, { capacities, priceFactor });
  const { parts, nodeWeights, overloadPrice, memberCounts, edgeScale } = state;
  const { memberAt, pullOf, priceOf, between, move, swap } = state;
  let { cut, overload } = state;

  let best: Int32Array | undefined;
  let bestCut = Infinity;
  let isBestNoted = false;
  const noteIfBest = (): void => {
    if (overload > EPSILON || cut > bestCut + EPSILON) return;
    best = parts.slice();
    bestCut = cut;
    isBestNoted = true;
  };
  noteIfBest();

  const unit = quickUnit(random);
  const { steps, hottest } = schedule;
  const coldest = schedule.coldest * lightness(graph.edgeWeights);
  const cooling = Math.pow(coldest / hottest, COOLING_PERIOD / Math.max(COOLING_PERIOD, steps));
  let temperature = hottest;
  const isAccepted = (gain: number): boolean => gain >= 0 || unit() < Math.exp(gain / temperature);
  let accepted = 0;
  for (let step = 0; step < steps; step += 1) {
    if ((step & (COOLING_PERIOD - 1)) === COOLING_PERIOD - 1) temperature *= cooling;
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
    const gainOne = pullOf(node, to) - pullOf(node, from);
    const count = memberCounts[to] ?? 0;
    const pick = unit();
    if (pick < SWAP_SHARE && count > 0) {
      const other = memberAt(to, ((pick / SWAP_SHARE) * count) | 0);
      let gain = gainOne + pullOf(other, from) - pullOf(other, to);
      const shift = weight - (nodeWeights[other] ?? 0);
      const price = shift === 0 ? 0 : priceOf(from, to, shift);
      // The edge between the two stays cut. Looking for it pays only where the step may be accepted without it.
      if (gain - price * overloadPrice <= -12 * temperature) continue;
      gain -= 2 * between(node, other);
      if (!isAccepted(gain - overloadPrice * price)) continue;
      swap(node, other);
      overload += price;
      cut -= gain;
    } else {
      const price = priceOf(from, to, weight);
      if (!isAccepted(gainOne - overloadPrice * price)) continue;
      move(node, to);
      overload += price;
      cut -= gainOne;
    }
    accepted += 1;
    if (overload <= EPSILON) {
      if (cut < bestCut - EPSILON) {
        bestCut = cut;
        isBestNoted = false;
      }
      if (!isBestNoted && cut <= bestCut + EPSILON) noteIfBest();
    }
  }
  return { best, bestWeight: bestCut / edgeScale, last: parts, accepted };
}

/** Numbers from 0 to 1 by xorshift32: a step draws three of them and must not pay for better ones. */
function quickUnit(random: Random): () => number {
  let draw = (random.below(0x7fffffff) | 1) >>> 0;
  return () => {
    draw ^= draw << 13;
    draw ^= draw >>> 17;
    draw ^= draw << 5;
    return (draw >>> 0) / 4294967296;
  };
}

/** Ratio of the median edge weight to the mean: where a few edges carry most of the weight, the walk must get as cold as the others. */
export function lightness(weights: Float64Array): number {
  const held = knownLightness.get(weights);
  if (held !== undefined) return held;
  const found = lightnessOf(weights);
  knownLightness.set(weights, found);
  return found;
}

/** Weights of a graph never change, and each walk on it asks. */
const knownLightness = new WeakMap<Float64Array, number>();

function lightnessOf(weights: Float64Array): number {
  const sorted = weights.slice().sort();
  const share = (sorted[sorted.length >> 1] ?? 0) / meanOf(weights);
  return share < 0.5 ? Math.max(1e-3, share) : 1;
}
