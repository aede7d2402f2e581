/**
 * @file A parallelism plan as the JSON document that a launcher reads: the work of each rank, its peers, and the launchers' own arguments.
 *
 * Ranks are numbered like the job's processes: host after host, GPU after GPU, from the host of the first stage's first unit on, so that Megatron-LM's rank 0 is on the host that
 * `MASTER_ADDR` names. Megatron-LM and DeepSpeed number tensor first, then data,
 * then pipeline, experts inside data, so the rank with the same work has another number there: `megatronRank` is that process's RANK.
 */

import type { FrameworkChoice } from "../../domain/model/framework-names.ts";
import type { TransformerShape } from "../../domain/model/transformer-shape.ts";
import { assumedLinks } from "./assumed-links.ts";
import { isBeforeAmpere } from "./framework.ts";
import {
  isSequenceParallel,
  megatronArguments,
  megatronNotes,
  type MegatronHardware,
} from "./megatron-arguments.ts";
import type { TrainingPlan } from "./plan.ts";
import { deepspeedConfig, fsdp2Settings, type Fsdp2Settings } from "./sharded-arguments.ts";
import type { PlanSite, Unit } from "./site.ts";
import { contextDegree, degreesText, expertDegree } from "./split.ts";

export interface PlanDocument {
  readonly version: 1;
  readonly model: string;
  /** Whose memory and traffic were counted, and whose arguments these are. */
  readonly framework: FrameworkChoice;
  readonly dataParallel: number;
  readonly pipelineParallel: number;
  /** Runs of layers of each stage (interleaved 1F1B); 1 without. */
  readonly virtualStages: number;
  readonly tensorParallel: number;
  /** GPUs that share out the tokens of each sequence: they have one micro-batch together, and sum gradients with the replicas. */
  readonly contextParallel: number;
  /** Inside the replicas: so many in a row share out the experts of a layer. */
  readonly expertParallel: number;
  readonly globalBatch: number;
  readonly microBatch: number;
  readonly microBatches: number;
  readonly recomputeActivations: boolean;
  /** Of attention's scores alone. */
  readonly recomputeScores: boolean;
  readonly sequenceParallel: boolean;
  readonly shardOptimizer: boolean;
  readonly shardGradients: boolean;
  readonly shardParameters: boolean;
  readonly stages: readonly {
    readonly firstLayer: number;
    readonly layers: number;
    /** Where they are several: first layer and count of each, in the order in which a micro-batch passes them. */
    readonly runs?: readonly (readonly [firstLayer: number, layers: number])[];
    readonly memoryGiB: number;
  }[];
  /** In the order of ranks; `MASTER_ADDR` is the first. */
  readonly hosts: readonly string[];
  readonly ranks: readonly PlanRank[];
  readonly groups: {
    readonly tensor: readonly (readonly number[])[];
    readonly data: readonly (readonly number[])[];
    readonly pipeline: readonly (readonly number[])[];
    /** Those that share out sequences; none where every replica has whole ones. */
    readonly context: readonly (readonly number[])[];
    /** Those that share out experts; none where every replica has all. */
    readonly expert: readonly (readonly number[])[];
  };
  readonly predicted: { readonly stepMs: number; readonly samplesPerSecond: number };
  readonly arguments: {
    readonly megatron: readonly string[];
    readonly deepspeed?: Readonly<Record<string, unknown>>;
    readonly fsdp2?: Fsdp2Settings;
  };
  /** GPUs without work, which the job may give back; 0 unless it consented. */
  readonly idleGpus: number;
  /** Links whose rates nobody stated, with the rates that were assumed. */
  readonly assumed: readonly string[];
  /** What the launchers' arguments cannot say. */
  readonly notes: readonly string[];
}

export interface PlanRank {
  readonly rank: number;
  readonly host: string;
  readonly stage: number;
  readonly replica: number;
  readonly tensorRank: number;
  readonly contextRank: number;
  readonly megatronRank: number;
}

export interface PlannedLaunch {
  /** Whether processes are numbered from the host of the first stage on; else from the site's first one. */
  readonly isLed?: boolean;
}

export function planDocument(
  plan: TrainingPlan,
  site: PlanSite,
  shape: TransformerShape | undefined,
  { isLed = true }: PlannedLaunch = {},
): PlanDocument {
  const { split } = plan;
  const { stages, replicas, width } = split;
  const contexts = contextDegree(split);
  const { hosts, rankOf } = rankOrder(site, (isLed ? split.cells[0]?.host : undefined) ?? 0);
  const ranks: PlanRank[] = [];
  /** By stage and tensor rank: all that sum gradients. */
  const summing: number[][] = [];
  const pipeline: number[][] = Array.from({ length: replicas * width }, () => []);
  const tensor: number[][] = [];
  for (let stage = 0; stage < stages; stage += 1) {
    const stageGroups: number[][] = Array.from({ length: width }, () => []);
    for (let replica = 0; replica < replicas; replica += 1) {
      const unit = split.cells[stage * replicas + replica];
      if (unit === undefined) continue;
      const group: number[] = [];
      for (let tensorRank = 0; tensorRank < width; tensorRank += 1) {
        const rank = rankOf(unit) + tensorRank;
        group.push(rank);
        stageGroups[tensorRank]?.push(rank);
        pipeline[replica * width + tensorRank]?.push(rank);
        ranks.push({
          rank,
          host: site.hosts[unit.host]?.id ?? "",
          stage,
          replica: Math.floor(replica / contexts),
          tensorRank,
          contextRank: replica % contexts,
          megatronRank: tensorRank + width * (replica + replicas * stage),
        });
      }
      tensor.push(group);
    }
    summing.push(...stageGroups);
  }
  const isOld = isBeforeAmpere(site);
  return {
    version: 1,
    model: plan.model,
    framework: plan.framework,
    dataParallel: replicas / contexts,
    pipelineParallel: stages,
    virtualStages: split.runs ?? 1,
    tensorParallel: width,
    contextParallel: contexts,
    expertParallel: expertDegree(split),
    globalBatch: plan.batch,
    microBatch: split.microBatch,
    microBatches: split.microBatches,
    recomputeActivations: split.isRecomputing,
    recomputeScores: split.isRecomputingScores === true,
    sequenceParallel: isSequenceParallel(split, shape),
    shardOptimizer: split.isSharded,
    shardGradients: split.shards !== undefined,
    shardParameters: split.shards === "parameters",
    stages: plan.stages.map(({ runs, memoryGiB }) => ({
      firstLayer: runs[0]?.[0] ?? 0,
      layers: runs.reduce((sum, [from, to]) => sum + to - from, 0),
      ...(runs.length > 1 && { runs: runs.map(([from, to]) => [from, to - from] as const) }),
      memoryGiB: Number(memoryGiB.toFixed(2)),
    })),
    hosts,
    ranks: ranks.sort((a, b) => a.rank - b.rank),
    groups: {
      tensor,
      data: summing.flatMap((group) => ranksApart(group, contexts)),
      pipeline,
      context: ranksInRow(summing, contexts),
      expert: ranksInRow(summing, expertDegree(split)),
    },
    predicted: {
      stepMs: Number(plan.stepMs.toFixed(2)),
      samplesPerSecond: Number(plan.samplesPerSecond.toFixed(3)),
    },
    arguments: argumentsOf(plan, shape, { isBeforeAmpere: isOld }),
    idleGpus: idleGpus(split, site),
    assumed: assumedLinks(site),
    notes: plan.framework === "megatron" && shape !== undefined ? megatronNotes(shape) : [],
  };
}

/** Hosts with this one first, and the rank of a unit's first GPU among theirs. */
function rankOrder(
  site: PlanSite,
  first: number,
): { readonly hosts: readonly string[]; readonly rankOf: (unit: Unit) => number } {
  const order = [first, ...site.hosts.keys()].filter((host, at) => at === 0 || host !== first);
  /** By host: its first rank among the site's, and here. */
  const [among, here] = [new Map<number, number>(), new Map<number, number>()];
  for (const [hosts, firstRanks] of [
    [site.hosts.keys(), among],
    [order, here],
  ] as const) {
    let rank = 0;
    for (const host of hosts) {
      firstRanks.set(host, rank);
      rank += site.hosts[host]?.gpuCount ?? 0;
    }
  }
  return {
    hosts: order.map((host) => site.hosts[host]?.id ?? ""),
    rankOf: ({ host, firstRank }) => (here.get(host) ?? 0) + firstRank - (among.get(host) ?? 0),
  };
}

const idleGpus = ({ cells, width }: TrainingPlan["split"], { hosts }: PlanSite): number =>
  hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0) - cells.length * width;

/** Of a stage: those of the same place in their context. */
const ranksApart = (ranks: readonly number[], contexts: number): readonly (readonly number[])[] =>
  Array.from({ length: contexts }, (_, own) => ranks.filter((__, at) => at % contexts === own));

/** Replicas in a row of each stage. */
const ranksInRow = (
  stages: readonly (readonly number[])[],
  degree: number,
): readonly (readonly number[])[] =>
  degree === 1
    ? []
    : stages.flatMap((ranks) =>
        Array.from({ length: ranks.length / degree }, (_, at) =>
          ranks.slice(at * degree, (at + 1) * degree),
        ),
      );

function argumentsOf(
  plan: TrainingPlan,
  shape: TransformerShape | undefined,
  hardware: MegatronHardware,
): PlanDocument["arguments"] {
  const precision = hardware.isBeforeAmpere ? "fp16" : "bf16";
  switch (plan.framework) {
    case "megatron":
      return {
        megatron: megatronArguments(plan, shape, hardware),
        ...(isOfDeepspeed(plan.split) && { deepspeed: deepspeedConfig(plan, precision) }),
      };
    case "deepspeed":
      return { megatron: [], deepspeed: deepspeedConfig(plan, precision) };
    case "fsdp2":
      return { megatron: [], fsdp2: fsdp2Settings(plan, precision) };
  }
}

/** Its pipelines share out no sequences and no experts by configuration, and each stage has one run of layers. */
const isOfDeepspeed = (split: TrainingPlan["split"]): boolean =>
  contextDegree(split) === 1 && expertDegree(split) === 1 && split.runs === undefined;

/** One line for people: `DP 4 × PP 2 × TP 1, micro-batch 4 × 4, 999 ms a step`. */
export function planLine({ split, stepMs, samplesPerSecond }: TrainingPlan): string {
  const extras = [
    ...(split.isRecomputing ? ["activations recomputed"] : []),
    ...(split.isRecomputingScores === true ? ["attention scores recomputed"] : []),
    ...(split.isSharded ? [`${SHARDED[split.shards ?? "optimizer"]} sharded`] : []),
  ];
  return (
    `${degreesText(split)}, micro-batch ${split.microBatch} × ${split.microBatches}, ` +
    `${stepMs.toFixed(0)} ms a step and ${samplesPerSecond.toFixed(1)} samples/s predicted${extras.map((extra) => `, ${extra}`).join("")}`
  );
}

const SHARDED = {
  optimizer: "optimiser state",
  gradients: "optimiser state and gradients",
  parameters: "optimiser state, gradients and parameters",
} as const;
