/**
 * @file Chooses the layers of each stage: the busiest stage as short as possible, no stage above its card's memory.
 *
 * Stages are runs of layers, and the need of a stage grows with each layer, so for a given time the greedy filling (as many layers as fit,
 * leaving one for each later stage) succeeds whenever any filling does; the time is found by bisection. A stage is as slow as its slowest
 * replica and as small as its smallest card. Then bounds move by a layer while the predicted step gets shorter: a border with a small tensor
 * may be worth some imbalance. Cost: O(layers × rounds) and one prediction for each border tried.
 */

import type { PlanSite } from "./site.ts";
import type { LayerSums, Split } from "./split.ts";
import { memoryGiB } from "./memory-parts.ts";
import { layersMemory, stageMemory } from "./stage-memory.ts";
import { stepTime } from "./step-time.ts";

const ROUNDS = 26;
const SHIFTS = 4;

export type OpenSplit = Omit<Split, "bounds">;

export function stageBounds(
  split: OpenSplit,
  site: PlanSite,
  sums: LayerSums,
): readonly number[] | undefined {
  const layerCount = sums.flops.length - 1;
  const { stages, replicas, cells } = split;
  if (stages > layerCount) return undefined;
  const speeds: number[] = [];
  const cards: number[] = [];
  for (let stage = 0; stage < stages; stage += 1) {
    const hosts = cells
      .slice(stage * replicas, (stage + 1) * replicas)
      .flatMap(({ host }) => site.hosts[host] ?? []);
    speeds.push(Math.min(...hosts.map(({ teraflops }) => teraflops)));
    cards.push(Math.min(...hosts.map((host) => host.memoryGiB)));
  }
  const total = sums.flops[layerCount] ?? 0;
  const filled = (limit: number): readonly number[] | undefined => {
    const bounds = [0];
    let at = 0;
    for (let stage = 0; stage < stages; stage += 1) {
      const last = layerCount - (stages - stage - 1);
      const from = at;
      while (at < last) {
        const isLong =
          (sums.flops[at + 1] ?? 0) - (sums.flops[from] ?? 0) > limit * (speeds[stage] ?? 1);
        // The first layer of a stage is always taken; memory is checked below.
        if (isLong && at > from) break;
        if (!isHeld(split, { stage, from, to: at + 1, sums, card: cards[stage] ?? 0 })) break;
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
      (speed, stage) =>
        (sums.flops[bounds[stage + 1] ?? 0] ?? 0) - (sums.flops[bounds[stage] ?? 0] ?? 0) <=
        limit * speed * (1 + 1e-9) + 1e-9,
    );
  let high = total / Math.min(...speeds) + 1;
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

function isHeld(
  split: OpenSplit,
  {
    stage,
    from,
    to,
    sums,
    card,
  }: {
    readonly stage: number;
    readonly from: number;
    readonly to: number;
    readonly sums: LayerSums;
    readonly card: number;
  },
): boolean {
  return memoryGiB(layersMemory(split, { stage, from, to }, sums)) <= card;
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
        const bounds = best.bounds.map((bound, at) => (at === border ? bound + by : bound));
        const isOrdered = bounds.every((bound, at) => at === 0 || bound > (bounds[at - 1] ?? 0));
        const tried = { ...best, bounds };
        if (!isOrdered || !isHeldEverywhere(tried, site, sums)) continue;
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
