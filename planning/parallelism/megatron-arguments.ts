/**
 * @file The arguments of Megatron-LM's pretrain scripts that train the planned model in the planned way, with the memory that was predicted.
 *
 * Each entry is one flag with its value, as its parser takes it: no quotes. The memory counts on the distributed optimiser, on sequence parallelism
 * wherever layers are split, on fused attention since Ampere, and on 32-bit gradients, so all of these are said. Uneven stages are a layout.
 */

import {
  isGated,
  type ExpertShape,
  type LatentShape,
  type TransformerShape,
} from "../../domain/model/transformer-shape.ts";
import type { TrainingPlan } from "./plan.ts";
import type { Split } from "./split.ts";

export interface MegatronHardware {
  /** Without bfloat16 and fused attention. */
  readonly isBeforeAmpere: boolean;
}

export function megatronArguments(
  { split, batch, stages }: TrainingPlan,
  shape: TransformerShape | undefined,
  { isBeforeAmpere }: MegatronHardware,
): readonly string[] {
  return [
    `--tensor-model-parallel-size ${split.width}`,
    `--pipeline-model-parallel-size ${split.stages}`,
    ...interleavingArguments(split, shape),
    ...(split.contexts === undefined
      ? []
      : [`--context-parallel-size ${split.contexts}`, "--cp-comm-type p2p"]),
    ...(split.experts === undefined ? [] : [`--expert-model-parallel-size ${split.experts}`]),
    ...(isSequenceParallel(split, shape) ? ["--sequence-parallel"] : []),
    `--micro-batch-size ${split.microBatch}`,
    `--global-batch-size ${batch}`,
    ...(shape === undefined ? [] : modelArguments(shape, isBeforeAmpere)),
    ...layoutArguments(stages, split, shape),
    ...(split.isRecomputing
      ? ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]
      : []),
    ...(split.isRecomputingScores === true ? ["--recompute-granularity selective"] : []),
    ...(split.isSharded ? ["--use-distributed-optimizer"] : []),
    ...(isBeforeAmpere
      ? ["--fp16", "--accumulate-allreduce-grads-in-fp32"]
      : ["--use-flash-attn", "--bf16"]),
  ];
}

/** Where layers are split over GPUs, so are the tokens of what lies between them. */
export const isSequenceParallel = (
  { width }: Pick<Split, "width">,
  shape: TransformerShape | undefined,
): boolean => width > 1 && shape !== undefined;

function modelArguments(shape: TransformerShape, isBeforeAmpere: boolean): readonly string[] {
  return [
    `--num-layers ${shape.layers}`,
    `--hidden-size ${shape.hidden}`,
    `--num-attention-heads ${shape.heads}`,
    ...(shape.keyValueHeads < shape.heads && shape.latent === undefined
      ? ["--group-query-attention", `--num-query-groups ${shape.keyValueHeads}`]
      : []),
    ...(shape.headSize * shape.heads === shape.hidden || shape.latent !== undefined
      ? []
      : [`--kv-channels ${shape.headSize}`]),
    `--ffn-hidden-size ${shape.feedForward}`,
    ...inputArguments(shape),
    ...gateArguments(shape),
    ...(shape.norm === "rms" ? ["--normalization RMSNorm"] : []),
    ...(isGemma(shape) ? ["--apply-layernorm-1p"] : []),
    `--norm-epsilon ${shape.normEpsilon}`,
    ...(shape.ropeBase === undefined
      ? []
      : ["--position-embedding-type rope", `--rotary-base ${shape.ropeBase}`]),
    ...(shape.ropeScaling?.kind === "llama3"
      ? ["--use-rope-scaling", `--rope-scaling-factor ${shape.ropeScaling.factor}`]
      : []),
    ...(shape.rotaryShare === undefined ? [] : [`--rotary-percent ${shape.rotaryShare}`]),
    ...(shape.biases === "all" ? [] : ["--disable-bias-linear"]),
    ...(shape.biases === "qkv" ? ["--add-qkv-bias"] : []),
    ...(shape.hasQueryNorms === true ? ["--qk-layernorm"] : []),
    ...(shape.experts === undefined ? [] : expertArguments(shape.experts, shape.layers)),
    // Experts' products in one kernel, which GPUs before Ampere refuse.
    ...(shape.experts === undefined || isBeforeAmpere ? [] : ["--moe-grouped-gemm"]),
    ...(shape.latent === undefined ? [] : latentArguments(shape.latent)),
    ...(shape.isTied || shape.image !== undefined ? [] : ["--untie-embeddings-and-output-weights"]),
    // Models of LLaMA's kind are trained without dropout, and memory counts no masks.
    ...(isGated(shape) ? ["--hidden-dropout 0", "--attention-dropout 0"] : []),
  ];
}

/** Gates by GELU have its quick form alone. */
const gateArguments = (shape: TransformerShape): readonly string[] =>
  isGated(shape) ? [shape.activation === "geglu" ? "--quick-geglu" : "--swiglu"] : [];

/** Its norms scale by one more than their weights. */
const isGemma = ({ family }: TransformerShape): boolean => /^gemma/.test(family);

/** Every script asks for the length of a sequence; an image has its patches and the class token. */
const inputArguments = ({
  sequence,
  positions,
  vocabulary,
  image,
}: TransformerShape): readonly string[] => [
  `--seq-length ${sequence}`,
  `--max-position-embeddings ${Math.max(sequence, positions)}`,
  ...(image === undefined
    ? [`--vocab-size ${vocabulary}`]
    : [
        `--img-h ${image.imageSize}`,
        `--img-w ${image.imageSize}`,
        `--patch-dim ${image.patchSize}`,
        `--num-channels ${image.channels}`,
      ]),
];

function expertArguments(experts: ExpertShape, layers: number): readonly string[] {
  const { count, chosen, feedForward, sharedFeedForward, denseLayers } = experts;
  return [
    `--num-experts ${count}`,
    `--moe-router-topk ${chosen}`,
    `--moe-ffn-hidden-size ${feedForward}`,
    ...(sharedFeedForward > 0
      ? [`--moe-shared-expert-intermediate-size ${sharedFeedForward}`]
      : []),
    // An expression of Python without blanks: which blocks have experts.
    ...(denseLayers > 0
      ? [`--moe-layer-freq ([0]*${denseLayers}+[1]*${layers - denseLayers})`]
      : []),
    "--moe-token-dispatcher-type alltoall",
  ];
}

const latentArguments = (latent: LatentShape): readonly string[] => [
  "--multi-latent-attention",
  ...(latent.queryRank > 0 ? [`--q-lora-rank ${latent.queryRank}`] : []),
  `--kv-lora-rank ${latent.keyValueRank}`,
  `--qk-head-dim ${latent.plainSize}`,
  `--qk-pos-emb-head-dim ${latent.rotarySize}`,
  `--v-head-dim ${latent.valueSize}`,
  "--qk-layernorm",
];

const interleavingArguments = (
  { stages, runs }: Split,
  shape: TransformerShape | undefined,
): readonly string[] =>
  runs === undefined || shape === undefined
    ? []
    : [`--num-layers-per-virtual-pipeline-stage ${shape.layers / (stages * runs)}`];

function layoutArguments(
  stages: TrainingPlan["stages"],
  split: Split,
  shape: TransformerShape | undefined,
): readonly string[] {
  if (shape === undefined || split.stages === 1 || split.runs !== undefined) return [];
  const blocks = stages.map(({ runs }) =>
    runs.reduce((sum, [from, to]) => sum + blocksIn(from, to, shape), 0),
  );
  if (new Set(blocks).size === 1) return [];
  return [`--pipeline-model-parallel-layout ${layoutText(blocks)}`];
}

/** Layer 0 is the embedding and the last one the head: neither counts as a block. */
const blocksIn = (from: number, to: number, shape: TransformerShape): number =>
  Math.min(to, shape.layers + 1) - Math.max(from, 1);

/** `Et*12|t*12L`: the embedding, blocks by stage, the loss. */
const layoutText = (blocks: readonly number[]): string =>
  `E${blocks.map((count) => (count > 0 ? `t*${count}` : "")).join("|")}L`;

/** Model types whose attention and feed-forward part take the same input, with their names. */
const PARALLEL: ReadonlyMap<string, string> = new Map([
  ["gpt_neox", "GPT-NeoX"],
  ["phi", "Phi"],
]);

/** What no argument says. */
export function megatronNotes(shape: TransformerShape): readonly string[] {
  const notes: string[] = [];
  if (shape.activation === "relu")
    notes.push(
      "Megatron-LM has no argument for ReLU: with these it trains the same shape with GELU.",
    );
  const parallel = PARALLEL.get(shape.family);
  if (parallel !== undefined)
    notes.push(
      `Megatron-LM has no argument for ${parallel}'s parallel residuals: with these attention and feed-forward follow one another.`,
    );
  if (shape.hasHeadBias === true)
    notes.push("Megatron-LM's output layer has no bias, the model's has one.");
  if (shape.activation === "geglu")
    notes.push(
      "Megatron-LM's gates have GELU in its quick form alone, x × σ(1.702 x): with these it trains the same shape with that.",
    );
  if (isGemma(shape))
    notes.push(
      "Megatron-LM has no argument for embeddings that are multiplied by the root of their width: with these they are not.",
    );
  if (shape.blockNorms === 4)
    notes.push(
      "Megatron-LM has no argument for norms behind attention and feed-forward parts, nor for caps of scores and logits: with these they are left out.",
    );
  if (shape.experts?.hasSharedGate === true)
    notes.push("The gate of the shared expert is left to your script.");
  if (shape.ropeScaling !== undefined && shape.ropeScaling.kind !== "llama3")
    notes.push(
      `The stretched rotations of kind ${shape.ropeScaling.kind} (factor ${shape.ropeScaling.factor}) are left to your script.`,
    );
  if (shape.experts !== undefined)
    notes.push(
      "Tokens are taken to choose experts evenly; where they do not, the busiest expert's GPU needs more time and memory.",
    );
  if (shape.image !== undefined)
    notes.push("These arguments are those of Megatron-LM's pretrain_vision_classify.py.");
  return notes;
}
