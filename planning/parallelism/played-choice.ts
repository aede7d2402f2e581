/**
 * @file The last choice among the best splits, by played steps: as the links share what is sent, where a bound lets all of it collide.
 *
 * Cost: the work stated of each part, moments × units.
 */

import { divisorsOf } from "../../lib/divisors.ts";
import {
  byTime,
  contextDegrees,
  degreesKey,
  evaluated,
  isBetter,
  otherRuns,
  plainArrangements,
  type Candidate,
  type Search,
} from "./candidates.ts";
import { clusterOrders } from "./cluster-orders.ts";
import { withMovedLayers } from "./moved-layers.ts";
import { unitsOf, type Unit } from "./site.ts";
import type { Player, Players } from "./player.ts";
import type { Split } from "./split.ts";
import { isHeldEverywhere, stageBounds } from "./stage-bounds.ts";
import { memoryModes } from "./stage-memory.ts";
import { playedStep } from "./step-time.ts";
import { whileSwapsHelp } from "./unit-swaps.ts";

/** Splits whose steps are played, and the work for all of them: moments × units. */
const PLAYED = 8;
const PLAYED_WORK = 16e6;
/** The same for units that change places, and for borders that are moved in the end. */
const SWAPPED_WORK = 2e6;
const SHIFTED_WORK = 3e6;
/** The same for splits of few GPUs whose layers move before the best of them is known: between neighbours, and of the best few further. */
const DESCENTS = 10;
const OF_DEGREES = 2;
const NEAR_WORK = 5e6;
const FAR_DESCENTS = 3;
const FAR_WORK = 3e6;

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
    return { ...candidate, time, isPlayed: true };
  };
  const first = sorted.map((candidate, place) =>
    place < PLAYED ? (play(candidate) ?? candidate) : candidate,
  );
  return first.map((candidate, place) => {
    if (place >= PLAYED) return candidate;
    const others = [
      ...nextMicroBatches(search, candidate),
      ...nextContexts(search, candidate),
    ].flatMap((other) => play(other) ?? []);
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
    const next = { ...open, microBatch, microBatches, ...(isInterleaved && { runs }) };
    return cheapestMode(search, next, arrangement);
  });
}

/**
 * The same GPUs with sequences shared out twice as far and half as far, on the same cells or plain ones, by their bounds: with fewer tokens each, activations
 * may no longer have to be computed again, and with more micro-batches stages wait less.
 */
function nextContexts(search: Search, { split, arrangement }: Candidate): readonly Candidate[] {
  const { model, batch, fixed, site } = search.request;
  const { isRecomputingScores: _mode, shards: _shards, contexts = 1, runs, ...rest } = split;
  if (runs !== undefined) return [];
  const { width, replicas, microBatch } = split;
  const units = unitsOf(site, width) ?? [];
  return contextDegrees(model, search.sums.framework, width)
    .filter((degree) => degree === 2 * contexts || 2 * degree === contexts)
    .flatMap((degree): readonly Candidate[] => {
      const microBatches = (batch * degree) / replicas / microBatch;
      const isPossible = replicas % degree === 0 && Number.isInteger(microBatches);
      if (!isPossible || (fixed?.contexts ?? degree) !== degree) return [];
      const open = { ...rest, microBatches, ...(degree > 1 && { contexts: degree }) };
      const found = [split.cells, ...plainOrders(search, open, [units])].flatMap((cells) =>
        cheapestMode(search, { ...open, cells }, arrangement),
      );
      return found.sort(byTime).slice(0, 1);
    });
}

/** In the cheapest memory mode that fits; none where none does. */
function cheapestMode(
  search: Search,
  open: Omit<Split, "isRecomputingScores" | "shards">,
  arrangement: string,
): readonly Candidate[] {
  for (const mode of memoryModes(search.sums.framework, open.replicas)) {
    const found = evaluated(search, { ...open, ...mode }, { arrangement });
    if (found !== undefined) return [found];
  }
  return [];
}

/** Units of two cells changed places while the played step gets shorter. */
export function playedSwaps(start: Candidate, search: Search, players: Players): Candidate {
  const { request, sums } = search;
  const arrangement = `${start.arrangement}, played units swapped`;
  const player = players(SWAPPED_WORK);
  return whileSwapsHelp(start, (split, best) => {
    if (player.isSpent()) return "enough";
    if (!isHeldEverywhere(split, request.site, sums)) {
      player.pass(split);
      return undefined;
    }
    const time = player.play(split, best.time.totalMs - 1e-9);
    return time && { split, time, arrangement };
  });
}

/** The first few that have one run a stage, of each choice of degrees no more than so many: each with layers moved between neighbours while that helps, and the best of them with layers moved further. */
export function playedDescents(
  sorted: readonly Candidate[],
  search: Search,
  players: Players,
): readonly Candidate[] {
  const near = players(NEAR_WORK);
  const ofDegrees = new Map<string, number>();
  const found = sorted
    .filter(({ split, isPlayed }) => {
      const key = degreesKey(split);
      const isOne = isPlayed === true && split.runs === undefined && split.stages > 1;
      const others = ofDegrees.get(key) ?? 0;
      if (!isOne || others === OF_DEGREES) return false;
      ofDegrees.set(key, others + 1);
      return true;
    })
    .slice(0, DESCENTS)
    .map((one) => withMovedLayers(one, search, { player: near, furthest: 1 }))
    .sort(byTime);
  const far = players(FAR_WORK);
  return found.map((one, at) =>
    at < FAR_DESCENTS ? withMovedLayers(one, search, { player: far }) : one,
  );
}

/**
 * Other numbers of runs on the same cells and on plain ones, then layers moved between stages (moved-layers.ts), while the played step gets shorter.
 */
export function playedShifts(start: Candidate, search: Search, players: Players): Candidate {
  const { site } = search.request;
  const player = players(SHIFTED_WORK);
  let found = start;
  const units = unitsOf(site, start.split.width) ?? [];
  const orders = [units, ...clusterOrders(site, units)];
  const places = [start.split.cells, ...plainOrders(search, start.split, orders)];
  for (const cells of places)
    for (const split of otherRuns(search, { ...start.split, cells })) {
      const time = player.play(split, found.time.totalMs);
      if (player.isSpent()) return found;
      if (time !== undefined) found = { ...found, split, time };
    }
  const starts = found.split.runs === undefined ? [found] : [];
  return [...starts, ...levelOn([found.split.cells, ...places], found, { search, player })]
    .map((one) => withMovedLayers(one, search, { player }))
    .reduce((a, b) => (isBetter(b, a) ? b : a), found);
}

const LEVEL_STARTS = 3;

interface Paid {
  readonly search: Search;
  readonly player: Player;
}

/**
 * One run a stage with layers by compute alone, on the best few of these cells: what the bound asks for may lie far from what the played step does, so these are
 * other starts.
 */
function levelOn(
  places: readonly (readonly Unit[])[],
  found: Candidate,
  { search: { request, sums }, player }: Paid,
): readonly Candidate[] {
  const { site, fixed } = request;
  const { runs: _other, ...plain } = found.split;
  if ((fixed?.runs ?? 1) !== 1) return [];
  const level: Candidate[] = [];
  for (const cells of new Set(places)) {
    const bounds = stageBounds({ ...plain, cells }, site, sums);
    if (bounds === undefined) continue;
    const split = { ...plain, cells, bounds };
    if (!isHeldEverywhere(split, site, sums)) continue;
    const time = player.play(split, Infinity);
    if (player.isSpent()) break;
    if (time !== undefined) level.push({ ...found, split, time });
  }
  return level.sort(byTime).slice(0, LEVEL_STARTS);
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
