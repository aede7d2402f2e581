/**
 * @file What a training framework keeps and sends of each parameter, and what it keeps of activations.
 *
 * DeepSpeed and FSDP2 train a model of PyTorch's own modules on replicas alone, whose states they share out (ZeRO): per micro-batch ZeRO 2 sums 16-bit
 * gradients, ZeRO 3 gathers parameters for forward and again for backward as well, and so does FSDP2, which sums in 32 bits. sharded-memory.ts counts
 * what they keep.
 *
 * Megatron-Core with `--bf16`, or `--fp16 --accumulate-allreduce-grads-in-fp32`, sums gradients in 32 bits and sends them so: 18 bytes a parameter,
 * or 6 + 12/d with the distributed optimiser, which gathers 16-bit parameters. Its buffers end at bucket borders. Attention is fused on GPUs since
 * Ampere. `HALF_PRECISION` is the training of SpiderFlow's experiments: 16-bit gradients, scores of attention kept.
 */

import type { FrameworkChoice } from "../../domain/model/framework-names.ts";
import type { PlanSite } from "./site.ts";

export interface Framework {
  readonly name: "megatron-core" | "half-precision" | "deepspeed" | "fsdp2";
  /** Bytes of a gradient, as it is kept and as it is sent. */
  readonly gradientBytes: 2 | 4;
  /** Scores of attention are not kept. */
  readonly hasFusedAttention: boolean;
  /** The vocabulary is filled up to a multiple of this for each GPU over which it is split. */
  readonly vocabularyMultiple: number;
  /** Context, libraries' buffers, fragmentation. */
  readonly reserveGiB: number;
}

export const MEGATRON_CORE: Framework = Object.freeze({
  name: "megatron-core",
  gradientBytes: 4,
  hasFusedAttention: true,
  vocabularyMultiple: 128,
  reserveGiB: 1.5,
});

export const HALF_PRECISION: Framework = Object.freeze({
  name: "half-precision",
  gradientBytes: 2,
  hasFusedAttention: false,
  vocabularyMultiple: 1,
  reserveGiB: 1.2,
});

export const DEEPSPEED: Framework = Object.freeze({
  name: "deepspeed",
  gradientBytes: 4,
  // PyTorch's scaled_dot_product_attention keeps no scores on any of these GPUs.
  hasFusedAttention: true,
  vocabularyMultiple: 1,
  reserveGiB: 1.5,
});

export const FSDP2: Framework = Object.freeze({ ...DEEPSPEED, name: "fsdp2" });

/** Its replicas share out more than the optimiser's state, and it splits no model into stages or layers over GPUs. */
export const isReplicasAlone = ({ name }: Framework): boolean =>
  name === "deepspeed" || name === "fsdp2";

/** A parameter as it computes and as it is handed out after the update. */
export const PARAMETER_BYTES = 2;

/** GPU types without bfloat16 and without fused attention. */
const BEFORE_AMPERE: ReadonlySet<string> = new Set([
  "V100",
  "V100-16",
  "V100-32",
  "T4",
  "P100",
  "K80",
]);

/** One GPU of the older kind decides for all. */
export const isBeforeAmpere = ({ hosts }: PlanSite): boolean =>
  hosts.some(({ gpuType }) => BEFORE_AMPERE.has(gpuType));

export const megatronOn = (site: PlanSite): Framework =>
  isBeforeAmpere(site) ? { ...MEGATRON_CORE, hasFusedAttention: false } : MEGATRON_CORE;

export function frameworkOn(site: PlanSite, choice: FrameworkChoice = "megatron"): Framework {
  if (choice === "megatron") return megatronOn(site);
  return choice === "deepspeed" ? DEEPSPEED : FSDP2;
}

/** Beyond the optimiser's state: gradients (ZeRO 2), and parameters as well (ZeRO 3, FSDP2). */
export type Shards = "gradients" | "parameters";

interface Shared {
  readonly isSharded: boolean;
  readonly shards?: Shards;
  readonly microBatches: number;
}

/** Of a parameter, over each edge of the ring of its replicas in a step but for the factor (k − 1)/k. */
export function ringBytes(
  { isSharded, shards, microBatches }: Shared,
  { name, gradientBytes }: Framework,
): number {
  if (name === "fsdp2") return microBatches * (2 * PARAMETER_BYTES + gradientBytes);
  // DeepSpeed sums gradients in the type in which they are made, unless it keeps them whole.
  if (shards === "parameters") return microBatches * 3 * PARAMETER_BYTES;
  if (shards === "gradients") return microBatches * PARAMETER_BYTES + PARAMETER_BYTES;
  // Every replica of ZeRO 1 gets all sums, then the parameters that the others have updated.
  if (name === "deepspeed") return 2 * gradientBytes + (isSharded ? PARAMETER_BYTES : 0);
  return gradientBytes + (isSharded ? PARAMETER_BYTES : gradientBytes);
}

/** Times that a ring is passed around in a step for each of its two halves: gathers and sums of each micro-batch, by layers. */
export function ringRounds({ shards, microBatches }: Shared, layers: number): number {
  if (shards === "parameters") return 1.5 * microBatches * layers;
  return shards === "gradients" ? 0.5 * (microBatches * layers + 1) : 1;
}
