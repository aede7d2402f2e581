/**
 * @file The last choice among the best splits, by played steps: as the links share what is sent, where a bound lets all of it collide.
 *
 * Cost: the work stated of each part, moments × units.
 */

import { divisorsOf } from "../../lib/divisors.ts";
import {
  evaluated,
  isBetter,
  otherRuns,
  plainArrangements,
  type Candidate,
  type Search,
} from "./candidates.ts";
import { clusterOrders } from "./cluster-orders.ts";
import { unitsOf, type Unit } from "./site.ts";
import { expertDegree, type Split } from "./split.ts";
import { isHeldEverywhere, shiftedBy } from "./stage-bounds.ts";
import { memoryModes } from "./stage-memory.ts";
import { playedStep } from "./step-time.ts";
import { whileSwapsHelp } from "./unit-swaps.ts";

/** Splits whose steps are played, and the work for all of them: moments × units. */
const PLAYED = 8;
const PLAYED_WORK = 16e6;
/** The same for units that change places, and for borders that are moved in the end. */
const SWAPPED_WORK = 2e6;
const SHIFTED_WORK = 6e6;

/** Those with the shortest bounds, as the links share their steps, with the best of the next micro-batches; the others keep their bounds. */
export function played(sorted: readonly Candidate[], search: Search): Candidate[] {
  const { request, sums } = search;
  const { site, onCandidate } = request;
  let left = PLAYED_WORK;
  const play = (candidate: Candidate): Candidate | undefined => {
    const { cells, microBatches, runs = 1, experts = 1 } = candidate.split;
    left -= microBatches * runs * cells.length ** 2 * experts;
    if (left < 0) return undefined;
    const time = playedStep(candidate.split, { site, sums });
    onCandidate?.(candidate.split, time);
    return { ...candidate, time };
  };
  const first = sorted.map((candidate, place) =>
    place < PLAYED ? (play(candidate) ?? candidate) : candidate,
  );
  return first.map((candidate, place) => {
    if (place >= PLAYED) return candidate;
    const others = nextMicroBatches(search, candidate).flatMap((other) => play(other) ?? []);
    return [candidate, ...others].reduce((a, b) => (isBetter(b, a) ? b : a));
  });
}

/** On the same cells, with the next fewer and the next more samples at a time, in the cheapest memory mode that fits. */
function nextMicroBatches(search: Search, { split, arrangement }: Candidate): readonly Candidate[] {
  const { mostMicroBatch, fixed } = search.request;
  const { isRecomputingScores: _mode, shards: _shards, runs, ...open } = split;
  const samples = split.microBatch * split.microBatches;
  const sizes = divisorsOf(samples, mostMicroBatch);
  const at = sizes.indexOf(split.microBatch);
  return [sizes[at - 1], sizes[at + 1]].flatMap((microBatch): readonly Candidate[] => {
    if (microBatch === undefined) return [];
    const microBatches = samples / microBatch;
    const isInterleaved = runs !== undefined && microBatches % split.stages === 0;
    if (fixed?.runs !== undefined && fixed.runs !== (isInterleaved ? runs : 1)) return [];
    for (const mode of memoryModes(search.sums.framework, split.replicas)) {
      const next = { ...open, ...mode, microBatch, microBatches, ...(isInterleaved && { runs }) };
      const found = evaluated(search, next, arrangement);
      if (found !== undefined) return [found];
    }
    return [];
  });
}

/** Units of two cells changed places while the played step gets shorter. */
export function playedSwaps(start: Candidate, { request, sums }: Search): Candidate {
  const { site, onCandidate } = request;
  const { cells, microBatches, runs = 1 } = start.split;
  const work = microBatches * runs * cells.length ** 2 * expertDegree(start.split);
  const arrangement = `${start.arrangement}, played units swapped`;
  let left = SWAPPED_WORK;
  return whileSwapsHelp(start, (split, best) => {
    left -= work;
    if (left < 0) return "enough";
    if (!isHeldEverywhere(split, site, sums)) return undefined;
    const time = playedStep(split, { site, sums });
    if (time.totalMs >= best.time.totalMs - 1e-9) return undefined;
    onCandidate?.(split, time);
    return { split, time, arrangement };
  });
}

/**
 * Other numbers of runs on the same cells and on plain ones, then borders moved one layer at a time, while the played step gets shorter: the bound does not
 * know which sends meet on a link.
 */
export function playedShifts(start: Candidate, search: Search): Candidate {
  const { site } = search.request;
  const { microBatches, cells } = start.split;
  const work = microBatches * cells.length ** 2 * expertDegree(start.split);
  let left = SHIFTED_WORK;
  let found = start;
  const units = unitsOf(site, start.split.width) ?? [];
  const orders = [units, ...clusterOrders(site, units)];
  for (const cells of [start.split.cells, ...plainOrders(search, start.split, orders)])
    for (const split of otherRuns(search, { ...start.split, cells })) {
      left -= work * (split.runs ?? 1);
      if (left < 0) return found;
      const time = playedStep(split, { site, sums: search.sums });
      search.request.onCandidate?.(split, time);
      if (time.totalMs < found.time.totalMs) found = { ...found, split, time };
    }
  if (found.split.runs !== undefined) return found;
  let best = found;
  for (let isAny = true; isAny;) {
    isAny = false;
    for (let border = 1; border < found.split.stages; border += 1)
      for (const by of [-1, 1]) {
        const split = shiftedBy(best.split, border, by);
        if (split === undefined || !isHeldEverywhere(split, site, search.sums)) continue;
        left -= work;
        if (left < 0) return best;
        const time = playedStep(split, { site, sums: search.sums });
        if (time.totalMs >= best.time.totalMs - 1e-9) continue;
        search.request.onCandidate?.(split, time);
        best = { ...best, split, time };
        isAny = true;
      }
  }
  return best;
}

/** Pipelines and replicas kept together, of units in each of these orders; none where some units stay idle. */
export function plainOrders(
  { request: { site } }: Search,
  { stages, replicas, contexts = 1 }: Split,
  orders: readonly (readonly Unit[])[],
): readonly (readonly Unit[])[] {
  return orders
    .filter(({ length }) => length === stages * replicas)
    .flatMap((units) =>
      plainArrangements(site, { stages, replicas, contexts }, units)
        .slice(0, 2)
        .map(([, cells]) => cells),
    );
}
