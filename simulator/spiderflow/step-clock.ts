/**
 * @file How long a step of a job takes on the GPUs that a method gave it, with its split chosen plainly, arranged, or planned as by TPA.
 *
 * Plain: data parallel alone, as the paper's baseline (§A.2); where a replica does not fit on one GPU, the fewest stages that do, ranks in the order of the
 * clusters. Planned: every product of stages and replicas that makes the gang, pipelines or replicas kept together, micro-batches of 1, 2, 4, 8, and the
 * shortest predicted step: the plain candidates of `plan.ts` without its exchanges, so rather worse than the product. Sparing: as planned, and of the gang's
 * clusters only those take part that make the step shortest; the others' GPUs are held and idle, the batch is the same. The paper's TPA asks for d · p ≤ r,
 * not for d · p = r (§4.2). Arranged: the degrees that are best in one cluster, as the owner of a job would set them, and the best of the same arrangements and
 * micro-batches where the gang lies: DT-FM takes degrees as given and optimises where the pieces go. Tensor parallelism is 1, as in the paper.
 * The same model of a step judges all of them (`step-time.ts`), which knows NVLink or PCIe inside hosts, the fabric, and the width between clusters.
 * Answers are remembered by what they depend on. Ties: more GPUs, then the lower places. Cost: O(divisors · GPUs · layers) a new question; sparing as many as
 * there are sets of clusters whose compute alone is not too long already.
 */

import { byReplica, byStage } from "../../planning/parallelism/arrange.ts";
import { HALF_PRECISION } from "../../planning/parallelism/framework.ts";
import type { PlanModel } from "../../planning/parallelism/models.ts";
import {
  unitsOf,
  type PlanHost,
  type PlanSite,
  type Way,
} from "../../planning/parallelism/site.ts";
import { layerSums, type LayerSums, type Split } from "../../planning/parallelism/split.ts";
import { isHeldEverywhere, stageBounds } from "../../planning/parallelism/stage-bounds.ts";
import { MEMORY_MODES } from "../../planning/parallelism/stage-memory.ts";
import { stepTime } from "../../planning/parallelism/step-time.ts";
import { leastComputeMs, leastReduceMs, type WaySpeeds } from "./least-step.ts";

export type SplitWay = "plain" | "arranged" | "planned" | "sparing";

/** GPUs of one cluster that a gang has. */
export interface GangPart {
  readonly cluster: number;
  readonly gpus: number;
}

/** A cluster as large as a gang, with the fleet's usual hosts. */
export const NOWHERE = -1;

export interface ClockFleet {
  readonly hostGpus: number;
  readonly cardGiB: number;
  readonly teraflops: number;
  /** By number of the cluster. */
  readonly insideOf: (cluster: number) => Way;
  readonly fabric: Way;
  readonly wanLatencyMs: number;
}

export interface StepQuestion {
  readonly model: PlanModel;
  /** Samples of a step, all GPUs together. */
  readonly batch: number;
  readonly parts: readonly GangPart[];
  /** Between two of the parts, by place; GB/s. */
  readonly gbsBetween: (a: number, b: number) => number;
}

export interface Step {
  readonly stepMs: number;
  /** Places of the parts that take part, ascending. */
  readonly used: readonly number[];
}

/** Undefined when no split fits into memory. */
export type StepClock = (question: StepQuestion, way: SplitWay) => Step | undefined;

export function openStepClock(fleet: ClockFleet): StepClock {
  const known = new Map<string, Step | undefined>();
  const models = new Map<PlanModel, Pick<ClockSetting, "sums" | "fittings" | "alone">>();
  const ask: StepClock = (question, way) => {
    const key = keyOf(question, way, fleet);
    if (known.has(key)) return known.get(key);
    const own = models.get(question.model) ?? {
      sums: layerSums(question.model, HALF_PRECISION),
      fittings: new Map<string, Fitting | undefined>(),
      alone: new Map<string, number | undefined>(),
    };
    models.set(question.model, own);
    const answer =
      way === "sparing"
        ? leastStep(
            question,
            (some) => ask(some, "planned"),
            (gpus) =>
              leastComputeMs(own.sums, { batch: question.batch, gpus, teraflops: fleet.teraflops }),
          )
        : stepOn(question, { way, fleet, ...own });
    known.set(key, answer);
    return answer;
  };
  return ask;
}

function keyOf(
  { model, batch, parts, gbsBetween }: StepQuestion,
  way: SplitWay,
  fleet: ClockFleet,
): string {
  let key = `${way} ${model.name} ${String(batch)}`;
  for (const [a, { gpus, cluster }] of parts.entries()) {
    key += `|${String(gpus)} ${String(fleet.insideOf(cluster).gbs)}`;
    for (let b = a + 1; b < parts.length; b += 1) key += ` ${gbsBetween(a, b).toPrecision(4)}`;
  }
  return key;
}

const stepOn = (question: StepQuestion, setting: ClockSetting): Step | undefined => {
  const found = shortestStep(question, setting);
  return found && { stepMs: found.totalMs, used: question.parts.map((_, place) => place) };
};

/** Sets of more parts are made of the largest one alone, and the whole is added. */
const MOST_PARTS = 10;

/** Over all sets of the parts, most GPUs first, until compute alone takes as long as the best. */
function leastStep(
  question: StepQuestion,
  stepOf: (question: StepQuestion) => Step | undefined,
  leastMs: (gpus: number) => number,
): Step | undefined {
  const { parts, gbsBetween } = question;
  const gpusOf = (place: number): number => parts[place]?.gpus ?? 0;
  const all = parts.map((_, place) => place);
  const large = [...all].sort((a, b) => gpusOf(b) - gpusOf(a) || a - b).slice(0, MOST_PARTS);
  const setOf = (mask: number): readonly number[] =>
    large.filter((_, at) => ((mask >> at) & 1) === 1).sort((a, b) => a - b);
  const sets = [all, ...Array.from({ length: 2 ** large.length - 1 }, (_, at) => setOf(at + 1))]
    .map((used) => ({ used, gpus: used.reduce((sum, place) => sum + gpusOf(place), 0) }))
    .sort((a, b) => b.gpus - a.gpus);
  let best: Step | undefined;
  for (const { used, gpus } of sets) {
    if (best !== undefined && leastMs(gpus) >= best.stepMs) break;
    const placeOf = (at: number): number => used[at] ?? 0;
    const step = stepOf({
      ...question,
      parts: used.flatMap((place) => parts[place] ?? []),
      gbsBetween: (a, b) => gbsBetween(placeOf(a), placeOf(b)),
    });
    if (step !== undefined && (best === undefined || step.stepMs < best.stepMs))
      best = { stepMs: step.stepMs, used };
  }
  return best;
}

const MICRO_BATCHES = [1, 2, 4, 8] as const;

interface ClockSetting {
  readonly way: SplitWay;
  readonly fleet: ClockFleet;
  readonly sums: LayerSums;
  /** Of the model, by degrees. */
  readonly fittings: Map<string, Fitting | undefined>;
  /** Stages that are best in one cluster, by batch and GPUs. */
  readonly alone: Map<string, number | undefined>;
}

interface Shortest {
  readonly totalMs: number;
  readonly stages: number;
}

function stagesInOneCluster(question: StepQuestion, setting: ClockSetting): number | undefined {
  const { alone } = setting;
  const gpus = question.parts.reduce((sum, part) => sum + part.gpus, 0);
  const key = `${String(question.batch)} ${String(gpus)}`;
  if (!alone.has(key)) {
    const together = { ...question, parts: [{ cluster: NOWHERE, gpus }] };
    alone.set(key, shortestStep(together, { ...setting, way: "planned" })?.stages);
  }
  return alone.get(key);
}

function shortestStep(question: StepQuestion, setting: ClockSetting): Shortest | undefined {
  const { way, fleet, sums } = setting;
  const { batch } = question;
  const site = siteOf(question, fleet);
  const units = unitsOf(site, 1) ?? [];
  const gpus = units.length;
  const layers = sums.flops.length - 1;
  const leastMs = leastComputeMs(sums, { batch, gpus, teraflops: fleet.teraflops });
  const speeds = speedsOf(question, site, fleet);
  const given = way === "arranged" ? stagesInOneCluster(question, setting) : undefined;
  let best: Shortest | undefined;
  for (let stages = given ?? 1; stages <= (given ?? Math.min(gpus, layers)); stages += 1) {
    if (gpus % stages !== 0) continue;
    const replicas = gpus / stages;
    const grid = { stages, replicas, sendBytes: [], reduceBytes: [] };
    const orders =
      way === "plain" ? [byReplica(grid, units)] : [byReplica(grid, units), byStage(grid, units)];
    for (const cells of orders)
      for (const microBatch of way === "plain" ? MICRO_BATCHES.slice(0, 1) : MICRO_BATCHES) {
        const samples = batch / replicas;
        if (samples % microBatch !== 0) continue;
        // Compute with the pipeline's bubble, and nothing sent at all.
        const microBatches = samples / microBatch;
        const atLeastMs = (leastMs * (microBatches + stages - 1)) / microBatches;
        if (best !== undefined && atLeastMs >= best.totalMs) continue;
        const open = { stages, replicas, width: 1, microBatch, microBatches };
        const fitting = fittingOf({ ...open, cells }, site, setting);
        if (fitting === undefined) continue;
        if (best !== undefined) {
          const grown = { stages, replicas, bounds: fitting.bounds, cells };
          const reduceMs = leastReduceMs(grown, sums, speeds);
          if (atLeastMs + reduceMs >= best.totalMs) continue;
        }
        const { totalMs } = stepTime({ ...open, ...fitting, cells }, { site, sums });
        if (best === undefined || totalMs < best.totalMs) best = { totalMs, stages };
      }
    if (way === "plain" && best !== undefined) return best;
  }
  return best;
}

/** A memory mode, and the stages that it takes. */
type Fitting = Pick<Split, "bounds" | "isRecomputing" | "isSharded">;

/** All cards are alike, so what fits does not depend on where: it is remembered by the degrees, and by how many micro-batches are in flight at most. */
function fittingOf(
  open: Omit<Split, keyof Fitting>,
  site: PlanSite,
  { sums, fittings }: ClockSetting,
): Fitting | undefined {
  const { stages, replicas, microBatch, microBatches } = open;
  const inFlight = Math.min(stages, microBatches);
  const key = `${String(stages)} ${String(replicas)} ${String(microBatch)} ${String(inFlight)}`;
  if (!fittings.has(key)) fittings.set(key, firstThatFits(open, site, sums));
  return fittings.get(key);
}

function firstThatFits(
  open: Omit<Split, keyof Fitting>,
  site: PlanSite,
  sums: LayerSums,
): Fitting | undefined {
  for (const mode of MEMORY_MODES) {
    if (mode.isSharded && open.replicas === 1) continue;
    const bounds = stageBounds({ ...open, ...mode }, site, sums);
    if (bounds === undefined) continue;
    if (isHeldEverywhere({ ...open, ...mode, bounds }, site, sums)) return { ...mode, bounds };
  }
  return undefined;
}

function speedsOf(
  { parts, gbsBetween }: StepQuestion,
  { hosts }: PlanSite,
  { fabric }: ClockFleet,
): WaySpeeds {
  let widestGbs = 0;
  for (const a of parts.keys())
    for (let b = a + 1; b < parts.length; b += 1)
      widestGbs = Math.max(widestGbs, gbsBetween(a, b), gbsBetween(b, a));
  return {
    clusterOf: Int32Array.from(hosts, ({ cluster }) => Number(cluster)),
    clusters: parts.length,
    fabricGbs: fabric.gbs,
    widestGbs,
  };
}

/** GPUs of a cluster on as few hosts as can be. */
function siteOf({ parts, gbsBetween }: StepQuestion, fleet: ClockFleet): PlanSite {
  const hosts = parts.flatMap(({ cluster, gpus }, place) => {
    const inside = fleet.insideOf(cluster);
    return Array.from({ length: Math.ceil(gpus / fleet.hostGpus) }, (_, at): PlanHost => {
      const gpuCount = Math.min(fleet.hostGpus, gpus - at * fleet.hostGpus);
      return {
        id: `${String(place)}/${String(at)}`,
        cluster: String(place),
        gpuType: "A100",
        gpuCount,
        memoryGiB: fleet.cardGiB,
        teraflops: fleet.teraflops,
        inside,
        nvlinkGpus: gpuCount,
      };
    });
  });
  return {
    hosts,
    fabric: () => fleet.fabric,
    between: (from, to) => ({
      gbs: gbsBetween(Number(from), Number(to)),
      latencyMs: fleet.wanLatencyMs,
    }),
  };
}
