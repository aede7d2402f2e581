/**
 * @file Chooses the layers of each stage: the busiest stage as short as possible, no stage above its card's memory.
 *
 * Stages are runs of layers, and the need of a stage grows with each layer, so for a given time the greedy filling (as many layers as fit,
 * leaving one for each later stage) succeeds whenever any filling does; the time is found by bisection. A stage is as slow as its slowest
 * replica and as small as its smallest card. Once cells are known, the same is done with what each stage sends. Then bounds move by a layer while the predicted step gets shorter: a border with a small tensor
 * may be worth some imbalance. Cost: O(layers × rounds) and one prediction for each border tried.
 */

import type { PlanSite } from "./site.ts";
import { boundsOf, range, type LayerSums, type Split } from "./split.ts";
import { memoryGiB } from "./memory-parts.ts";
import { layersMemory, stageMemory } from "./stage-memory.ts";
import { stagePaces, stepTime, type StepSetting } from "./step-time.ts";

const ROUNDS = 26;
const SHIFTS = 4;

export type OpenSplit = Omit<Split, "bounds">;

/** How fast each stage works, and the time that it needs whatever its layers: FLOPs of a forward pass of a sample ÷ speed and waits are in one unit. */
interface Paces {
  readonly speeds: readonly number[];
  readonly waits?: readonly number[];
}

export function stageBounds(
  split: OpenSplit,
  site: PlanSite,
  sums: LayerSums,
): readonly number[] | undefined {
  const { speeds } = stageKinds(split, site);
  return pacedBounds(split, { site, sums, paces: { speeds } });
}

/** By stage: its slowest GPU and its smallest card. */
export function stageKinds(
  { stages, replicas, cells }: OpenSplit,
  { hosts }: PlanSite,
): { readonly speeds: readonly number[]; readonly cards: readonly number[] } {
  const [speeds, cards]: [number[], number[]] = [[], []];
  for (let stage = 0; stage < stages; stage += 1) {
    let [speed, card] = [Infinity, Infinity];
    for (let cell = stage * replicas; cell < (stage + 1) * replicas; cell += 1) {
      const host = hosts[cells[cell]?.host ?? -1];
      if (host === undefined) continue;
      speed = Math.min(speed, host.teraflops);
      card = Math.min(card, host.memoryGiB);
    }
    speeds.push(speed);
    cards.push(card);
  }
  return { speeds, cards };
}

function pacedBounds(
  split: OpenSplit,
  { site, sums, paces }: StepSetting & { readonly paces: Paces },
): readonly number[] | undefined {
  const { stages } = split;
  const { speeds, waits = speeds.map(() => 0) } = paces;
  const layerCount = sums.flops.length - 1;
  if (stages > layerCount) return undefined;
  const { cards } = stageKinds(split, site);
  const held = heldLayers(split, sums);
  const reachOf = (stage: number, from: number): number =>
    heldUpTo(split, { stage, from, sums, held, card: cards[stage] ?? 0 });
  const roomOf = (stage: number, limit: number): number =>
    (limit - (waits[stage] ?? 0)) * (speeds[stage] ?? 1);
  const total = sums.flops[layerCount] ?? 0;
  const filled = (limit: number): readonly number[] | undefined => {
    const bounds = [0];
    let at = 0;
    for (let stage = 0; stage < stages; stage += 1) {
      const last = layerCount - (stages - stage - 1);
      const from = at;
      const most = reachOf(stage, from);
      while (at < last) {
        const isLong = (sums.flops[at + 1] ?? 0) - (sums.flops[from] ?? 0) > roomOf(stage, limit);
        // The first layer of a stage is always taken; memory is checked below.
        if (isLong && at > from) break;
        if (at >= most) break;
        at += 1;
        if (isLong) break;
      }
      if (at === from) return undefined;
      bounds.push(at);
    }
    return at === layerCount && isWithin(bounds, limit) ? bounds : undefined;
  };
  const isWithin = (bounds: readonly number[], limit: number): boolean =>
    speeds.every(
      (_, stage) =>
        (sums.flops[bounds[stage + 1] ?? 0] ?? 0) - (sums.flops[bounds[stage] ?? 0] ?? 0) <=
        roomOf(stage, limit) * (1 + 1e-9) + 1e-9,
    );
  let high = total / Math.min(...speeds) + Math.max(...waits) + 1;
  let best = filled(high);
  if (best === undefined) return undefined;
  let low = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const middle = (low + high) / 2;
    const found = filled(middle);
    if (found === undefined) low = middle;
    else {
      best = found;
      high = middle;
    }
  }
  return best;
}

/** Of the least slowest stages by compute alone, those whose squares have the least sum, and those whose first stages are fullest: by dynamic programming. */
export function evenBounds(
  split: OpenSplit,
  site: PlanSite,
  sums: LayerSums,
): readonly (readonly number[])[] {
  const { stages } = split;
  const filled = stageBounds(split, site, sums);
  if (filled === undefined || stages === 1) return filled === undefined ? [] : [filled];
  const layerCount = sums.flops.length - 1;
  const { speeds, cards } = stageKinds(split, site);
  const held = heldLayers(split, sums);
  const timeOf = (stage: number, from: number, to: number): number =>
    range(sums.flops, from, to) / (speeds[stage] ?? 1);
  const most = Math.max(
    ...speeds.map((_, stage) => timeOf(stage, filled[stage] ?? 0, filled[stage + 1] ?? 0)),
  );
  const found = [false, true].map((isFullest): readonly number[] => {
    /** By end of the stages so far: the slowest of them, the sum of squares, and by stage where its last one began. */
    let slowest = new Float64Array(layerCount + 1).fill(Infinity);
    let squares = new Float64Array(layerCount + 1);
    slowest[0] = 0;
    const begins: Int32Array[] = [];
    for (let stage = 0; stage < stages; stage += 1) {
      const [nextSlowest, nextSquares] = [slowest.slice().fill(Infinity), squares.slice()];
      const begin = new Int32Array(layerCount + 1);
      for (let from = stage; from < layerCount; from += 1) {
        const before = slowest[from] ?? Infinity;
        if (before === Infinity) continue;
        const reach = heldUpTo(split, { stage, from, sums, held, card: cards[stage] ?? 0 });
        const last = Math.min(reach, layerCount - (stages - 1 - stage));
        for (let to = from + 1; to <= last; to += 1) {
          const ms = timeOf(stage, from, to);
          if (ms > most * (1 + SLACK)) break;
          const [all, sum] = [Math.max(before, ms), (squares[from] ?? 0) + ms * ms];
          const least = nextSlowest[to] ?? Infinity;
          // Of equally slow ones the later has the fuller stages before it.
          const isEqual = all === least && (isFullest || sum < (nextSquares[to] ?? 0));
          if (all > least || (all === least && !isEqual)) continue;
          nextSlowest[to] = all;
          nextSquares[to] = sum;
          begin[to] = from;
        }
      }
      [slowest, squares] = [nextSlowest, nextSquares];
      begins.push(begin);
    }
    const bounds = [layerCount];
    for (const begin of [...begins].reverse()) bounds.unshift(begin[bounds[0] ?? 0] ?? 0);
    return bounds;
  });
  const [even, fullest] = found;
  return even !== undefined && even.every((bound, at) => bound === fullest?.[at]) ? [even] : found;
}

const SLACK = 1e-6;

/** As `stageBounds`, for what a stage works, exchanges and sends together: where a link is slow, those at its ends get fewer layers. */
export function levelledBounds(split: Split, site: PlanSite, sums: LayerSums): Split {
  if (split.runs !== undefined || split.stages === 1) return split;
  const paces = stagePaces(split, { site, sums });
  const speeds = paces.map(({ workMs }, stage) => {
    const flops = range(sums.flops, ...boundsOf(split, stage));
    return workMs === 0 ? Infinity : flops / workMs;
  });
  // An embedding alone computes nothing, and tells no pace.
  if (speeds.some((speed) => !(speed > 0 && speed < Infinity))) return split;
  const waits = paces.map(({ sendMs }) => sendMs);
  const bounds = pacedBounds(split, { site, sums, paces: { speeds, waits } });
  return bounds === undefined ? split : { ...split, bounds };
}

/** By card, then by stage and first layer: the end of the layers that fit. */
type HeldLayers = Map<number, Map<number, number>>;

/** Of all that memory follows from but the cells: units that change places leave it as it is. */
const known = new WeakMap<LayerSums, Map<string, HeldLayers>>();

function heldLayers(split: OpenSplit, sums: LayerSums): HeldLayers {
  const { width, stages, replicas, experts, contexts, microBatch, microBatches } = split;
  const { isRecomputing, isRecomputingScores, isSharded, shards } = split;
  const degrees = [width, stages, replicas, experts, contexts, microBatch, microBatches];
  const key = [...degrees, isRecomputing, isRecomputingScores, isSharded, shards].join();
  const ofSums = known.get(sums) ?? new Map<string, HeldLayers>();
  known.set(sums, ofSums);
  const found: HeldLayers = ofSums.get(key) ?? new Map<number, Map<number, number>>();
  ofSums.set(key, found);
  return found;
}

interface FirstLayer {
  readonly stage: number;
  readonly from: number;
  readonly sums: LayerSums;
  readonly held: HeldLayers;
  readonly card: number;
}

function heldUpTo(split: OpenSplit, { stage, from, sums, held, card }: FirstLayer): number {
  const layerCount = sums.flops.length - 1;
  const ofCard = held.get(card) ?? new Map<number, number>();
  held.set(card, ofCard);
  const key = stage * (layerCount + 1) + from;
  let to = ofCard.get(key);
  if (to !== undefined) return to;
  // What holds layers from one before holds as many without it.
  to = Math.max(from, ofCard.get(key - 1) ?? 0);
  while (
    to < layerCount &&
    memoryGiB(layersMemory(split, { stage, from, to: to + 1 }, sums)) <= card
  )
    to += 1;
  ofCard.set(key, to);
  return to;
}

/** Whether every stage fits on every card that it is on. */
export function isHeldEverywhere(split: Split, site: PlanSite, sums: LayerSums): boolean {
  for (let stage = 0; stage < split.stages; stage += 1) {
    const need = memoryGiB(stageMemory(split, stage, sums));
    for (let replica = 0; replica < split.replicas; replica += 1) {
      const unit = split.cells[stage * split.replicas + replica];
      if (need > (site.hosts[unit?.host ?? -1]?.memoryGiB ?? 0)) return false;
    }
  }
  return true;
}

/** With these borders, the last one included, moved by so many layers; undefined where a stage would have none. */
export function shiftedBy(
  split: Split,
  [first, last]: readonly [number, number],
  by: number,
): Split | undefined {
  const bounds = split.bounds.map((bound, at) => (at >= first && at <= last ? bound + by : bound));
  const isOrdered = bounds.every((bound, at) => at === 0 || bound > (bounds[at - 1] ?? 0));
  return isOrdered ? { ...split, bounds } : undefined;
}

/** Borders moved one layer at a time while that helps. */
export function shiftedBounds(split: Split, site: PlanSite, sums: LayerSums): Split {
  // Megatron-LM's runs are of one size.
  if (split.runs !== undefined) return split;
  let best = split;
  let bestMs = stepTime(split, { site, sums }).totalMs;
  for (let round = 0; round < SHIFTS; round += 1) {
    let isBetter = false;
    for (let border = 1; border < split.stages; border += 1) {
      for (const by of [-1, 1]) {
        const tried = shiftedBy(best, [border, border], by);
        if (tried === undefined || !isHeldEverywhere(tried, site, sums)) continue;
        const ms = stepTime(tried, { site, sums }).totalMs;
        if (ms >= bestMs - 1e-9) continue;
        best = tried;
        bestMs = ms;
        isBetter = true;
      }
    }
    if (!isBetter) break;
  }
  return best;
}
