/**
 * @file A plan as the JSON document that a launcher reads: what each rank does, with which ranks it talks, and the launchers' own arguments.
 *
 * Ranks are counted as the job's processes are (host after host, GPU after GPU). A rank that Megatron-LM or DeepSpeed gives the same work has
 * another number there, since both number tensor first, then data, then pipeline: `megatronRank` is to be that process's RANK.
 */

import type { TransformerShape } from "../../domain/model-presets.ts";
import type { TrainingPlan } from "./plan.ts";
import type { PlanSite } from "./site.ts";

export interface PlanDocument {
  readonly version: 1;
  readonly model: string;
  readonly dataParallel: number;
  readonly pipelineParallel: number;
  readonly tensorParallel: number;
  readonly globalBatch: number;
  readonly microBatch: number;
  readonly microBatches: number;
  readonly recomputeActivations: boolean;
  readonly shardOptimizer: boolean;
  readonly stages: readonly {
    readonly firstLayer: number;
    readonly layers: number;
    readonly memoryGiB: number;
  }[];
  readonly ranks: readonly PlanRank[];
  readonly groups: {
    readonly tensor: readonly (readonly number[])[];
    readonly data: readonly (readonly number[])[];
    readonly pipeline: readonly (readonly number[])[];
  };
  readonly predicted: { readonly stepMs: number; readonly samplesPerSecond: number };
  readonly arguments: {
    readonly megatron: readonly string[];
    readonly deepspeed: Readonly<Record<string, unknown>>;
  };
}

export interface PlanRank {
  readonly rank: number;
  readonly host: string;
  readonly stage: number;
  readonly replica: number;
  readonly tensorRank: number;
  readonly megatronRank: number;
}

export function planDocument(
  plan: TrainingPlan,
  site: PlanSite,
  shape: TransformerShape | undefined,
): PlanDocument {
  const { split } = plan;
  const { stages, replicas, width } = split;
  const ranks: PlanRank[] = [];
  const data: number[][] = [];
  const pipeline: number[][] = Array.from({ length: replicas * width }, () => []);
  const tensor: number[][] = [];
  for (let stage = 0; stage < stages; stage += 1) {
    const stageGroups: number[][] = Array.from({ length: width }, () => []);
    for (let replica = 0; replica < replicas; replica += 1) {
      const unit = split.cells[stage * replicas + replica];
      if (unit === undefined) continue;
      const group: number[] = [];
      for (let tensorRank = 0; tensorRank < width; tensorRank += 1) {
        const rank = unit.firstRank + tensorRank;
        group.push(rank);
        stageGroups[tensorRank]?.push(rank);
        pipeline[replica * width + tensorRank]?.push(rank);
        ranks.push({
          rank,
          host: site.hosts[unit.host]?.id ?? "",
          stage,
          replica,
          tensorRank,
          megatronRank: tensorRank + width * (replica + replicas * stage),
        });
      }
      tensor.push(group);
    }
    data.push(...stageGroups);
  }
  return {
    version: 1,
    model: plan.model,
    dataParallel: replicas,
    pipelineParallel: stages,
    tensorParallel: width,
    globalBatch: plan.batch,
    microBatch: split.microBatch,
    microBatches: split.microBatches,
    recomputeActivations: split.isRecomputing,
    shardOptimizer: split.isSharded,
    stages: plan.stages.map(({ layers: [from, to], memoryGiB }) => ({
      firstLayer: from,
      layers: to - from,
      memoryGiB: Number(memoryGiB.toFixed(2)),
    })),
    ranks: ranks.sort((a, b) => a.rank - b.rank),
    groups: { tensor, data, pipeline },
    predicted: {
      stepMs: Number(plan.stepMs.toFixed(2)),
      samplesPerSecond: Number(plan.samplesPerSecond.toFixed(3)),
    },
    arguments: { megatron: megatronArguments(plan, shape), deepspeed: deepspeedConfig(plan) },
  };
}

/** As Megatron-LM's pretrain scripts take them; uneven stages as its layout string. */
export function megatronArguments(
  { split, batch, stages }: TrainingPlan,
  shape: TransformerShape | undefined,
): readonly string[] {
  const blocks = stages.map(({ layers: [from, to] }) => blocksIn(from, to, shape));
  const isEven = new Set(blocks).size === 1;
  return [
    `--tensor-model-parallel-size ${split.width}`,
    `--pipeline-model-parallel-size ${split.stages}`,
    `--micro-batch-size ${split.microBatch}`,
    `--global-batch-size ${batch}`,
    ...(shape === undefined
      ? []
      : [
          `--num-layers ${shape.layers}`,
          `--hidden-size ${shape.hidden}`,
          `--num-attention-heads ${shape.heads}`,
          `--ffn-hidden-size ${shape.feedForward}`,
          `--seq-length ${shape.sequence}`,
          `--max-position-embeddings ${shape.sequence}`,
          ...(shape.keyValueHeads < shape.heads
            ? [`--group-query-attention --num-query-groups ${shape.keyValueHeads}`]
            : []),
        ]),
    ...(split.stages > 1 && !isEven && shape !== undefined
      ? [`--pipeline-model-parallel-layout "${layoutText(blocks)}"`]
      : []),
    ...(split.isRecomputing
      ? ["--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"]
      : []),
    ...(split.isSharded ? ["--use-distributed-optimizer"] : []),
    "--bf16",
  ];
}

/** Layer 0 is the embedding and the last one the head: neither counts as a block. */
function blocksIn(from: number, to: number, shape: TransformerShape | undefined): number {
  if (shape === undefined) return to - from;
  return Math.min(to, shape.layers + 1) - Math.max(from, 1);
}

/** `Et*12|t*12L`: the embedding, blocks by stage, the loss. */
const layoutText = (blocks: readonly number[]): string =>
  `E${blocks.map((count) => (count > 0 ? `t*${count}` : "")).join("|")}L`;

function deepspeedConfig({ split, batch }: TrainingPlan): Readonly<Record<string, unknown>> {
  return {
    train_batch_size: batch,
    train_micro_batch_size_per_gpu: split.microBatch,
    gradient_accumulation_steps: split.microBatches,
    bf16: { enabled: true },
    zero_optimization: { stage: split.isSharded ? 1 : 0 },
    ...(split.isRecomputing && { activation_checkpointing: { partition_activations: false } }),
    ...(split.stages > 1 && { pipeline: { stages: split.stages } }),
  };
}

/** One line for people: `DP 4 × PP 2 × TP 1, micro-batch 4 × 4, 999 ms a step`. */
export function planLine({ split, stepMs, samplesPerSecond }: TrainingPlan): string {
  const extras = [
    ...(split.isRecomputing ? ["activations recomputed"] : []),
    ...(split.isSharded ? ["optimiser state sharded"] : []),
  ];
  return (
    `DP ${split.replicas} × PP ${split.stages} × TP ${split.width}, micro-batch ${split.microBatch} × ${split.microBatches}, ` +
    `${stepMs.toFixed(0)} ms a step and ${samplesPerSecond.toFixed(1)} samples/s predicted${extras.map((extra) => `, ${extra}`).join("")}`
  );
}
