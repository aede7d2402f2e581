/**
 * @file The capacities that parts get: the slack that was asked for, or the least whole percent at which a packing is found, with a proof of how much of that is needed.
 *
 * Where one node outweighs a part, or a few heavy ones fill no part well, no cut exists at the slack that was asked for. Then all parts grow alike. A packing is sought by
 * `pack-parts.ts`, the percent by doubling and halving; what is impossible is proven with the heaviest nodes alone, which must pack as well: every way to place them is tried,
 * parts with equal room being one. Cost: about twenty packings, and at most `MOST_STEPS` placements for each percent of the proof.
 */

import type { Random } from "../../../lib/random.ts";
import {
  capacitiesOf,
  LOAD_EPSILON,
  type CutGraph,
} from "../../../planning/parallelism/cut-graph.ts";
import { packParts } from "../../../planning/parallelism/pack-parts.ts";

export interface Packable {
  readonly capacities: readonly number[];
  readonly slack: number;
  /** No packing exists at this slack, proven; undefined where nothing is. */
  readonly impossibleAt: number | undefined;
}

/** Nodes that the proof places. */
const HEAVIEST = 40;
const MOST_STEPS = 100_000;

export function packableCapacities(
  graph: CutGraph,
  shares: readonly number[],
  { slack, random }: { readonly slack: number; readonly random: Random },
): Packable {
  const at = (percent: number): readonly number[] =>
    capacitiesOf(graph, shares, Math.max(slack, percent / 100));
  const isPacked = (percent: number): boolean =>
    packParts(graph, at(percent), random.stream(`slack-${percent}`)).kind === "packed";
  const asked = Math.floor(100 * slack);
  if (isPacked(asked)) return { capacities: at(asked), slack, impossibleAt: undefined };
  let [broken, sound] = [asked, asked + 1];
  while (!isPacked(sound)) [broken, sound] = [sound, 2 * sound];
  while (sound - broken > 1) {
    const middle = (sound + broken) >> 1;
    if (isPacked(middle)) sound = middle;
    else broken = middle;
  }
  const heavy = [...graph.nodeWeights].sort((a, b) => b - a).slice(0, HEAVIEST);
  let impossible: number | undefined;
  // What packs at some slack packs at any larger one, so the largest percent without a packing is enough.
  let [low, high] = [asked - 1, sound];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (isImpossible(heavy, at(middle))) [low, impossible] = [middle, middle];
    else high = middle;
  }
  return {
    capacities: at(sound),
    slack: sound / 100,
    impossibleAt: impossible === undefined ? undefined : Math.max(slack, impossible / 100),
  };
}

/** Whether weights, heaviest first, surely fit nowhere; false also where the budget ended first. */
export function isImpossible(weights: readonly number[], capacities: readonly number[]): boolean {
  const room = capacities.map((capacity) => capacity * (1 + LOAD_EPSILON));
  let steps = 0;
  const place = (at: number): boolean => {
    const weight = weights[at];
    if (weight === undefined) return true;
    const tried = new Set<number>();
    for (const [part, left] of room.entries()) {
      if (left < weight || tried.has(left)) continue;
      steps += 1;
      if (steps > MOST_STEPS) return true;
      tried.add(left);
      room[part] = left - weight;
      const isPlaced = place(at + 1);
      room[part] = left;
      if (isPlaced) return true;
    }
    return false;
  };
  return !place(0);
}
