/**
 * @file The best of all ways to split a model over at most some dozens of GPUs, by enumeration: an oracle for the planner's search.
 *
 * Every tensor degree that hosts allow × stages × replicas that use all GPUs × degrees of context and expert parallelism × every divisor of a
 * replica's samples as micro-batch × numbers of equal runs of blocks a stage × what is computed again. Each is laid out with hosts in every order of
 * their kinds, by stages, by groups that share out a sequence, and by replicas. Layers of uninterleaved stages are chosen by dynamic programming: the
 * least slowest stage among those that fit, ties once by the least sum of squares and once by the fullest first stages. No choice of degrees is left
 * out because another one looks better, and nothing of the search is used: of the planner it has the layers' memory and the played step, by which
 * plans are compared. What is not played has a floor above the best step found: compute and all-reduces of its pipeline, or bytes over a link ÷ its rate.
 * In the end borders of the best few move a layer at a time while that helps.
 */

import { divisorsOf } from "../../../lib/divisors.ts";
import { isReplicasAlone, frameworkOn } from "../../../planning/parallelism/framework.ts";
import { memoryGiB } from "../../../planning/parallelism/memory-parts.ts";
import { MODEL_FLOP_SHARE, type PlanModel } from "../../../planning/parallelism/models.ts";
import type { PlanSite, Unit } from "../../../planning/parallelism/site.ts";
import { layerSums, type LayerSums, type Split } from "../../../planning/parallelism/split.ts";
import { layersMemory, stageMemory } from "../../../planning/parallelism/stage-memory.ts";
import { playedStep, stepTime } from "../../../planning/parallelism/step-time.ts";
import { linkFloorMs } from "../../plan/link-floor.ts";
import { simulatedPlan } from "../../plan/simulated-plan.ts";

export interface SplitCase {
  readonly model: PlanModel;
  readonly site: PlanSite;
  readonly batch: number;
}

export interface EverySplit {
  /** Undefined where none takes less than what was given. */
  readonly best: { readonly split: Split; readonly stepMs: number } | undefined;
  /** Splits that could have taken less, by their floors, and those of them whose step was played. */
  readonly fitting: number;
  readonly played: number;
}

type Open = Omit<Split, "bounds">;
/** Of tokens of a sequence, a unit has this many at least (decision 168). */
const FEWEST_TOKENS = 4_096;
const MOST_KINDS = 3;
/** Whose borders are moved. */
const FINALISTS = 6;

/** What takes less than `thanMs`: all others are left out by floors, however they were found. */
export function bestOfEverySplit(of: SplitCase, thanMs = Infinity): EverySplit {
  const { model, site } = of;
  const sums = layerSums(model, frameworkOn(site));
  const fitting: { readonly split: Split; readonly floorMs: number; readonly boundMs: number }[] =
    [];
  for (const split of everySplit(of, { sums, thanMs })) {
    const least = floorMs(of, split, sums);
    if (least < thanMs && isHeld(split, site, sums))
      fitting.push({
        ...{ split, floorMs: least },
        boundMs: stepTime(split, { site, sums }).totalMs,
      });
  }
  // The bound only says which are played first, so that floors exclude the more.
  fitting.sort((a, b) => a.boundMs - b.boundMs);
  const best: { readonly split: Split; readonly stepMs: number }[] = [];
  let played = 0;
  const play = (split: Split): number => {
    played += 1;
    return playedStep(split, { site, sums }).totalMs;
  };
  for (const { split, floorMs: leastMs } of fitting) {
    if (leastMs >= Math.min(best[0]?.stepMs ?? Infinity, thanMs)) continue;
    best.push({ split, stepMs: play(split) });
    best.sort((a, b) => a.stepMs - b.stepMs);
    best.length = Math.min(best.length, FINALISTS);
  }
  const [first] = best
    .map((one) => shifted(one, play, (split) => isHeld(split, site, sums)))
    .filter(({ stepMs }) => stepMs < thanMs)
    .sort((a, b) => a.stepMs - b.stepMs);
  return { best: first, fitting: fitting.length, played };
}

interface Enumeration {
  readonly sums: LayerSums;
  readonly thanMs: number;
}

function* everySplit(of: SplitCase, { sums, thanMs }: Enumeration): Generator<Split> {
  for (const open of everyOpenSplit(of, sums)) {
    const { runs = 1 } = open;
    if (levelMs(of, open, sums) >= thanMs) continue;
    if (runs > 1) yield { ...open, bounds: equalRuns(of.model, open.stages * runs) };
    else for (const bounds of levelBounds(open, of.site, sums)) yield { ...open, bounds };
  }
}

/**
 * No step is shorter, whatever the layers of its stages: T ÷ (1 − (1 − 1/m)^p) where all work of a micro-batch takes T, because a stage works for all m of
 * them after the first has passed those before it; with several runs a stage m T ÷ p.
 */
function levelMs({ site }: SplitCase, open: Open, sums: LayerSums): number {
  const { stages, microBatches, microBatch, contexts = 1, width, cells, runs = 1 } = open;
  const fastest = Math.max(...cells.map(({ host }) => site.hosts[host]?.teraflops ?? 0));
  const flops = (open.isRecomputing ? 4 : 3) * (sums.flops.at(-1) ?? 0) * (microBatch / contexts);
  const allMs = flops / (width * fastest * MODEL_FLOP_SHARE * 1e9);
  return runs > 1
    ? (microBatches * allMs) / stages
    : allMs / (1 - (1 - 1 / microBatches) ** stages);
}

function* everyOpenSplit({ model, site, batch }: SplitCase, sums: LayerSums): Generator<Open> {
  if (isReplicasAlone(sums.framework)) throw new RangeError("pipelines are Megatron-Core's");
  const gpus = site.hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  for (let width = 1; width <= gpus; width += 1) {
    if (model.splitOf % width !== 0) continue;
    const orders = unitOrders(site, width);
    const [units = []] = orders;
    if (units.length * width !== gpus) continue;
    for (const replicas of divisorsOf(units.length)) {
      const stages = units.length / replicas;
      if (stages > model.layers.length) continue;
      for (const contexts of divisorsOf(replicas)) {
        const samples = (batch * contexts) / replicas;
        if (!isContextDegree(model, contexts, width) || !Number.isInteger(samples)) continue;
        if (contexts > 1 && !sums.framework.hasFusedAttention) continue;
        for (const experts of divisorsOf(replicas)) {
          const count = model.shape?.experts?.count ?? 1;
          if (count % experts !== 0) continue;
          const degrees = {
            ...{ width, stages, replicas },
            ...(contexts > 1 && { contexts }),
            ...(experts > 1 && { experts }),
          };
          for (const cells of layouts(degrees, orders))
            for (const microBatch of divisorsOf(samples)) {
              const microBatches = samples / microBatch;
              for (const runs of runCounts(model, stages, microBatches))
                for (const mode of modesOf(sums, replicas))
                  yield {
                    ...{ ...degrees, ...mode, microBatch, microBatches, cells },
                    ...(runs > 1 && { runs }),
                  };
            }
        }
      }
    }
  }
}

const isContextDegree = ({ shape }: PlanModel, contexts: number, width: number): boolean =>
  contexts === 1 ||
  (shape !== undefined &&
    shape.image === undefined &&
    (contexts & (contexts - 1)) === 0 &&
    shape.sequence >= contexts * FEWEST_TOKENS &&
    shape.sequence % (2 * contexts * width) === 0);

function runCounts({ shape }: PlanModel, stages: number, microBatches: number): readonly number[] {
  if (shape === undefined || stages === 1 || microBatches % stages !== 0) return [1];
  return shape.layers % stages === 0 ? divisorsOf(shape.layers / stages) : [1];
}

function modesOf(
  { framework }: LayerSums,
  replicas: number,
): readonly Pick<Split, "isRecomputing" | "isRecomputingScores" | "isSharded">[] {
  const isSharded = replicas > 1;
  return [
    { isRecomputing: false, isSharded },
    { isRecomputing: true, isSharded },
    ...(framework.hasFusedAttention
      ? []
      : [{ isRecomputing: false, isRecomputingScores: true, isSharded }]),
  ];
}

/** Units with hosts in every order of their kinds: those of one cluster and GPU type, and of one size where these are few. */
function unitOrders({ hosts }: PlanSite, width: number): readonly (readonly Unit[])[] {
  const sizes = new Set(hosts.map(({ cluster, gpuCount }) => `${cluster}/${String(gpuCount)}`));
  const isSorted = sizes.size <= MOST_KINDS;
  const kinds = new Map<string, Unit[]>();
  let rank = 0;
  for (const [host, { cluster, gpuType, gpuCount, nvlinkGpus }] of hosts.entries()) {
    const key = `${cluster}/${gpuType}${isSorted ? `/${String(gpuCount)}` : ""}`;
    const units = kinds.get(key) ?? [];
    kinds.set(key, units);
    for (
      let at = 0;
      at + width <= gpuCount && (width === 1 || nvlinkGpus % width === 0);
      at += width
    )
      units.push({ host, firstRank: rank + at, width });
    rank += gpuCount;
  }
  return permutations([...kinds.values()]).map((order) => order.flat());
}

function permutations<Item>(items: readonly Item[]): readonly (readonly Item[])[] {
  if (items.length <= 1) return [items];
  return items.flatMap((item, at) =>
    permutations([...items.slice(0, at), ...items.slice(at + 1)]).map((rest) => [item, ...rest]),
  );
}

function layouts(
  { stages, replicas, contexts = 1 }: Pick<Split, "stages" | "replicas" | "contexts">,
  orders: readonly (readonly Unit[])[],
): readonly (readonly Unit[])[] {
  const found = new Map<string, readonly Unit[]>();
  for (const units of orders)
    for (const together of new Set([replicas, contexts, 1])) {
      const cells: Unit[] = [];
      for (const [at, unit] of units.entries()) {
        const group = Math.floor(at / (stages * together));
        const [stage, member] = [Math.floor(at / together) % stages, at % together];
        cells[stage * replicas + group * together + member] = unit;
      }
      found.set(cells.map(({ firstRank }) => firstRank).join(), cells);
    }
  return [...found.values()];
}

/** The embedding with the first run, the head with the last. */
const equalRuns = ({ layers }: PlanModel, count: number): readonly number[] =>
  Array.from({ length: count + 1 }, (_, at) =>
    at === 0 ? 0 : at === count ? layers.length : 1 + (at * (layers.length - 2)) / count,
  );

/** By dynamic programming over stages; ties in two ways. */
function levelBounds(open: Open, site: PlanSite, sums: LayerSums): readonly (readonly number[])[] {
  const { stages, replicas, cells } = open;
  const count = sums.flops.length - 1;
  const least = (stage: number, of: "teraflops" | "memoryGiB"): number =>
    Math.min(
      ...cells
        .slice(stage * replicas, (stage + 1) * replicas)
        .map(({ host }) => site.hosts[host]?.[of] ?? 0),
    );
  /** By stage and first layer: the end of the most layers that fit. */
  const reach = Array.from({ length: stages }, (_, stage) => {
    const card = least(stage, "memoryGiB");
    let to = 0;
    return Array.from({ length: count }, (__, from) => {
      to = Math.max(to, from);
      while (to < count && memoryGiB(layersMemory(open, { stage, from, to: to + 1 }, sums)) <= card)
        to += 1;
      return to;
    });
  });
  const found = new Map<string, readonly number[]>();
  for (const isFullest of [false, true]) {
    /** By end of the stages so far. */
    let states: (State | undefined)[] = [{ slowest: 0, squares: 0, to: 0, before: undefined }];
    for (let stage = 0; stage < stages; stage += 1) {
      const speed = least(stage, "teraflops");
      const next: (State | undefined)[] = [];
      for (const [from, before] of states.entries()) {
        if (before === undefined) continue;
        const last = Math.min(reach[stage]?.[from] ?? 0, count - (stages - 1 - stage));
        for (let to = from + 1; to <= last; to += 1) {
          const ms = ((sums.flops[to] ?? 0) - (sums.flops[from] ?? 0)) / speed;
          const slowest = Math.max(before.slowest, ms);
          const squares = before.squares + ms * ms;
          const held = next[to];
          const isBetter =
            held === undefined ||
            slowest < held.slowest ||
            // Of equally slow ones the later has the fuller stages before it.
            (slowest === held.slowest && (isFullest || squares < held.squares));
          if (isBetter) next[to] = { slowest, squares, to, before };
        }
      }
      states = next;
    }
    const bounds: number[] = [];
    for (let at = states[count]; at !== undefined; at = at.before) bounds.unshift(at.to);
    if (bounds.length > 0) found.set(bounds.join(), bounds);
  }
  return [...found.values()];
}

interface State {
  readonly slowest: number;
  readonly squares: number;
  /** Layers of the stages so far. */
  readonly to: number;
  readonly before: State | undefined;
}

function isHeld(split: Split, site: PlanSite, sums: LayerSums): boolean {
  return Array.from({ length: split.stages }, (_, stage) =>
    memoryGiB(stageMemory(split, stage, sums)),
  ).every((need, stage) =>
    split.cells
      .slice(stage * split.replicas, (stage + 1) * split.replicas)
      .every(({ host }) => need <= (site.hosts[host]?.memoryGiB ?? 0)),
  );
}

/**
 * No step is shorter: a stage works and sends for all micro-batches after the first has come to it, and before the last has gone back or its gradients have gone around.
 * Sends and gradients as if they were alone on their links, exchanges for nothing.
 */
function floorMs({ model, site }: SplitCase, split: Split, sums: LayerSums): number {
  const plan = { model, site, split, gradientBytes: sums.framework.gradientBytes };
  const { forwardMs, backwardMs, sendBytes, ringBytes } = simulatedPlan(plan);
  const { stages, replicas, microBatches, cells } = split;
  const hostAt = (stage: number, replica: number): number =>
    cells[((stage + stages) % stages) * replicas + replica]?.host ?? 0;
  const gbsBetween = (a: number, b: number): number => {
    const [from, to] = [site.hosts[a], site.hosts[b]];
    if (from === undefined || to === undefined || a === b) return Infinity;
    return from.cluster === to.cluster
      ? site.fabric(from.cluster).gbs
      : Math.min(site.fabric(from.cluster).gbs, site.between(from.cluster, to.cluster).gbs);
  };
  const runs = split.bounds.length - 1;
  const sentMs = (run: number, to: number, replica: number): number => {
    if (to < 0 || to >= runs) return 0;
    const gbs = gbsBetween(hostAt(run, replica), hostAt(to, replica));
    return (sendBytes[Math.min(run, to)] ?? 0) / (gbs * 1e6);
  };
  let most = linkFloorMs(plan);
  for (let replica = 0; replica < replicas; replica += 1) {
    let [before, after] = [0, 0];
    for (let stage = 0; stage < stages; stage += 1) {
      const host = hostAt(stage, replica);
      const ahead = (run: number): number => forwardMs(run, host) + sentMs(run, run + 1, replica);
      const back = (run: number): number => backwardMs(run, host) + sentMs(run, run - 1, replica);
      let own = 0;
      for (let run = stage; run < runs; run += stages) own += ahead(run) + back(run);
      const others = cells.slice(stage * replicas, (stage + 1) * replicas);
      const ringGbs = Math.max(
        ...others
          .flatMap((a) => others.map((b) => gbsBetween(a.host, b.host)))
          .filter(Number.isFinite),
        0,
      );
      const ringMs = ringGbs === 0 ? 0 : (ringBytes[stage] ?? 0) / (ringGbs * 1e6);
      most = Math.max(most, before + microBatches * own + Math.max(after, ringMs));
      before += ahead(stage);
      after += back(stage);
    }
  }
  return most;
}

function shifted(
  start: { readonly split: Split; readonly stepMs: number },
  play: (split: Split) => number,
  isFitting: (split: Split) => boolean,
): { readonly split: Split; readonly stepMs: number } {
  if (start.split.runs !== undefined) return start;
  let best = start;
  for (let isAny = true; isAny;) {
    isAny = false;
    for (let border = 1; border < start.split.stages; border += 1)
      for (const by of [-1, 1]) {
        const bounds = best.split.bounds.map((bound, at) => (at === border ? bound + by : bound));
        const isOrdered = bounds.every((bound, at) => at === 0 || bound > (bounds[at - 1] ?? 0));
        const split = { ...best.split, bounds };
        if (!isOrdered || !isFitting(split)) continue;
        const stepMs = play(split);
        if (stepMs >= best.stepMs) continue;
        best = { split, stepMs };
        isAny = true;
      }
  }
  return best;
}
