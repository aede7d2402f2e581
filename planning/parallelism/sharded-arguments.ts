/**
 * @file DeepSpeed's configuration and FSDP2's settings that train the planned model in the planned way, with the memory that was predicted.
 *
 * ZeRO's buckets and the parameters that ZeRO 3 gathers ahead have sizes that the count relies on, so all of these are said. FSDP2 has no file of its
 * own: the settings are the arguments of `fully_shard` and `MixedPrecisionPolicy`, under their names.
 */

import type { TrainingPlan } from "./plan.ts";

/** Parameters of a bucket in which ZeRO sums gradients or gathers parameters: within the reserve. */
const BUCKET = 50_000_000;

export function deepspeedConfig(
  { split, batch, framework, largestMatrix }: TrainingPlan,
  precision: "bf16" | "fp16",
): Readonly<Record<string, unknown>> {
  const { shards } = split;
  const stage = shards === "parameters" ? 3 : shards === "gradients" ? 2 : split.isSharded ? 1 : 0;
  return {
    train_batch_size: batch,
    train_micro_batch_size_per_gpu: split.microBatch,
    gradient_accumulation_steps: split.microBatches,
    [precision]: { enabled: true },
    // With ZeRO 2 and 3 shares of gradients are kept in 32 bits without it.
    ...(stage <= 1 && { data_types: { grad_accum_dtype: "fp32" } }),
    zero_optimization: {
      stage,
      ...(framework === "deepspeed" && {
        overlap_comm: false,
        reduce_bucket_size: BUCKET,
        ...(stage < 3 && { allgather_bucket_size: BUCKET }),
        ...(stage === 3 && {
          stage3_prefetch_bucket_size: 0,
          stage3_max_live_parameters: 2 * largestMatrix,
          stage3_max_reuse_distance: 0,
        }),
      }),
    },
    ...(split.isRecomputing && { activation_checkpointing: { partition_activations: false } }),
    ...(split.stages > 1 && { pipeline: { stages: split.stages } }),
  };
}

export interface Fsdp2Settings {
  readonly fully_shard: {
    readonly each: "block";
    readonly reshard_after_forward: true;
    readonly mp_policy: {
      readonly param_dtype: "bfloat16" | "float16";
      readonly reduce_dtype: "float32";
    };
  };
  /** Sizes of the mesh's dimensions. Where sequences are shared out (`context_parallel`) there are two, flattened for `fully_shard`. */
  readonly mesh: readonly [number] | readonly [dataParallel: number, contextParallel: number];
  readonly mesh_dim_names?: readonly ["dp_shard", "cp"];
  readonly activation_checkpointing: "block" | "none";
  readonly micro_batch_size: number;
  readonly gradient_accumulation_steps: number;
}

export const fsdp2Settings = (
  { split }: TrainingPlan,
  precision: "bf16" | "fp16",
): Fsdp2Settings => ({
  fully_shard: {
    each: "block",
    reshard_after_forward: true,
    mp_policy: {
      param_dtype: precision === "bf16" ? "bfloat16" : "float16",
      reduce_dtype: "float32",
    },
  },
  ...(split.contexts === undefined
    ? { mesh: [split.replicas] }
    : {
        mesh: [split.replicas / split.contexts, split.contexts],
        mesh_dim_names: ["dp_shard", "cp"],
      }),
  activation_checkpointing: split.isRecomputing ? "block" : "none",
  micro_batch_size: split.microBatch,
  gradient_accumulation_steps: split.microBatches,
});
