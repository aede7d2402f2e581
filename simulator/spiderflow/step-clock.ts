/**
 * @file How long a step of a job takes on the GPUs that a method gave it, with its split chosen plainly, arranged, or planned as by TPA.
 *
 * Plain: data parallel alone, as the paper's baseline (§A.2); where a replica does not fit on one GPU, the fewest stages that do, ranks in the order of the
 * clusters. Planned: every product of stages and replicas that makes the gang, pipelines or replicas kept together, micro-batches of 1, 2, 4, 8, and the
 * shortest predicted step: the plain candidates of `plan.ts` without its exchanges, so rather worse than the product. Arranged: the degrees that are best in one
 * cluster, as the owner of a job would set them, and the best of the same arrangements and micro-batches where the gang lies: DT-FM takes degrees as
 * given and optimises where the pieces go. Tensor parallelism is 1, as in the paper.
 * All are judged by the same model of a step (`step-time.ts`), which knows NVLink or PCIe inside hosts, the fabric, and the width between clusters.
 * Answers are remembered by what they depend on. Cost: O(divisors · GPUs · layers) a new question.
 */

import { byReplica, byStage } from "../../scheduling/plan/arrange.ts";
import type { PlanModel } from "../../scheduling/plan/models.ts";
import { unitsOf, type PlanHost, type PlanSite, type Way } from "../../scheduling/plan/site.ts";
import { isHeldEverywhere, stageBounds } from "../../scheduling/plan/stage-bounds.ts";
import {
  layerSums,
  MEMORY_MODES,
  stepTime,
  type LayerSums,
  type Split,
} from "../../scheduling/plan/step-time.ts";

export type SplitWay = "plain" | "arranged" | "planned";

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
  readonly samplesPerGpu: number;
  readonly parts: readonly GangPart[];
  /** Between two of the parts, by place; GB/s. */
  readonly gbsBetween: (a: number, b: number) => number;
}

/** Milliseconds; undefined when no split fits into memory. */
export type StepClock = (question: StepQuestion, way: SplitWay) => number | undefined;

export function openStepClock(fleet: ClockFleet): StepClock {
  const known = new Map<string, number | undefined>();
  const sums = new Map<PlanModel, LayerSums>();
  return (question, way) => {
    const key = keyOf(question, way, fleet);
    if (known.has(key)) return known.get(key);
    const own = sums.get(question.model) ?? layerSums(question.model);
    sums.set(question.model, own);
    const answer = shortestStep(question, { way, fleet, sums: own })?.totalMs;
    known.set(key, answer);
    return answer;
  };
}

function keyOf(
  { model, samplesPerGpu, parts, gbsBetween }: StepQuestion,
  way: SplitWay,
  fleet: ClockFleet,
): string {
  const widths = parts.flatMap((_, a) =>
    parts.slice(a + 1).map((__, at) => gbsBetween(a, a + 1 + at).toPrecision(4)),
  );
  const insides = parts.map(({ gpus, cluster }) => [gpus, fleet.insideOf(cluster).gbs]);
  return JSON.stringify([way, model.name, samplesPerGpu, insides, widths]);
}

const MICRO_BATCHES = [1, 2, 4, 8] as const;

interface ClockSetting {
  readonly way: SplitWay;
  readonly fleet: ClockFleet;
  readonly sums: LayerSums;
}

interface Shortest {
  readonly totalMs: number;
  readonly stages: number;
}

function stagesInOneCluster(question: StepQuestion, setting: ClockSetting): number | undefined {
  const gpus = question.parts.reduce((sum, part) => sum + part.gpus, 0);
  const together = { ...question, parts: [{ cluster: NOWHERE, gpus }] };
  return shortestStep(together, { ...setting, way: "planned" })?.stages;
}

function shortestStep(question: StepQuestion, setting: ClockSetting): Shortest | undefined {
  const { way, fleet, sums } = setting;
  const site = siteOf(question, fleet);
  const units = unitsOf(site, 1) ?? [];
  const gpus = units.length;
  const batch = gpus * question.samplesPerGpu;
  const layers = sums.flops.length - 1;
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
        const open = { stages, replicas, width: 1, microBatch, microBatches: samples / microBatch };
        const split = firstThatFits({ ...open, cells }, site, sums);
        if (split === undefined) continue;
        const { totalMs } = stepTime(split, { site, sums });
        if (best === undefined || totalMs < best.totalMs) best = { totalMs, stages };
      }
    if (way === "plain" && best !== undefined) return best;
  }
  return best;
}

function firstThatFits(
  open: Omit<Split, "bounds" | "isRecomputing" | "isSharded">,
  site: PlanSite,
  sums: LayerSums,
): Split | undefined {
  for (const mode of MEMORY_MODES) {
    if (mode.isSharded && open.replicas === 1) continue;
    const bounds = stageBounds({ ...open, ...mode }, site, sums);
    if (bounds === undefined) continue;
    const split = { ...open, ...mode, bounds };
    if (isHeldEverywhere(split, site, sums)) return split;
  }
  return undefined;
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
