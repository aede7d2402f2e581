/**
 * @file The memory of a GPU of each stage, with the bytes a parameter of framework.ts.
 *
 * Parameters: those of the stage's layers ÷ tensor degree, but norms and some biases whole; rows that fill up the vocabulary; a tied embedding in
 * the last stage too. 16-bit weights, gradients as the framework keeps them, 12 bytes of optimiser state (divided by the replicas when it is
 * sharded). Experts that e replicas share out count 1/e of themselves, and their state is divided by the d/e replicas that have the same. Activations
 * of the micro-batches in flight (p − stage of them at most; interleaved, as many runs of
 * layers as the schedule has begun and not ended: 1 + (p − 1)/(p v) times all layers in the first stage, Korthikanti et al. 2022, §4.2.3), ÷ tensor degree, because with sequence parallelism every part of a layer is split
 * (Korthikanti et al. 2022, table 2), and ÷ the units that share out a sequence, with four buffers of a block's keys and values; choices of experts count as even.
 * Beside these are the tensors of a moment, as Megatron-Core's own modules make them (data/plan): in a block's backward, where a last stage's logits are gone by then, or
 * while the loss is computed; with sequence parallelism and whole tokens of the part that runs. Cost: O(1) with the sums of layers.
 */

import { isReplicasAlone, PARAMETER_BYTES, type Framework, type Shards } from "./framework.ts";
import type { MemoryParts } from "./memory-parts.ts";
import { sharedMemory } from "./sharded-memory.ts";
import { aheadOf, isForwardAt, ownRunOf, placeAt } from "./pipeline-time.ts";
import {
  blockKeyValues,
  boundsOf,
  contextDegree,
  expertDegree,
  range,
  runCount,
  samplesOf,
  type LayerSums,
  type Split,
} from "./split.ts";

/** Every way to spend time or exchange for memory. */
export const MEMORY_MODES = [
  { isRecomputing: false, isSharded: false },
  { isRecomputing: false, isSharded: true },
  { isRecomputing: true, isSharded: false },
  { isRecomputing: true, isSharded: true },
] as const;

export interface MemoryMode {
  readonly isRecomputing: boolean;
  readonly isRecomputingScores?: boolean;
  readonly isSharded: boolean;
  readonly shards?: Shards;
}

/**
 * Those worth a try, cheapest first. With 32-bit gradients a sharded optimiser sends less, so it is never left out; scores of attention that is
 * not fused may be computed again by themselves.
 */
export function memoryModes(framework: Framework, replicas: number): readonly MemoryMode[] {
  if (framework.name === "half-precision")
    return MEMORY_MODES.filter(({ isSharded }) => replicas > 1 || !isSharded);
  const isSharded = replicas > 1;
  if (isReplicasAlone(framework)) {
    const shards = !isSharded
      ? [{}]
      : framework.name === "fsdp2"
        ? [{ shards: "parameters" as const }]
        : [{}, { shards: "gradients" as const }, { shards: "parameters" as const }];
    return [false, true].flatMap((isRecomputing) =>
      shards.map((what) => ({ isRecomputing, isSharded, ...what })),
    );
  }
  return [
    { isRecomputing: false, isSharded },
    ...(framework.hasFusedAttention
      ? []
      : [{ isRecomputing: false, isRecomputingScores: true, isSharded }]),
    { isRecomputing: true, isSharded },
  ];
}

const GIB = 2 ** 30;
/** Megatron's buffers of parameters and gradients end at the borders of buckets: a share of them at most. */
const BUCKET_SHARE = 5e-4;

/** Keys and values of a block that wait and that come in, and in backward their gradients likewise, where a ring passes them around. */
const RING_BUFFERS = 4;

export function stageMemory(split: Split, stage: number, sums: LayerSums): MemoryParts {
  const pieces: Piece[] = [];
  for (let run = stage; run < runCount(split); run += split.stages) {
    const [from, to] = boundsOf(split, run);
    pieces.push({ from, to });
  }
  return piecesMemory(split, { stage, pieces }, sums);
}

/** The sums of the layers from `from` up to `to`, as a stage. */
export const layersMemory = (
  split: Omit<Split, "bounds">,
  { stage, from, to }: Piece & { readonly stage: number },
  sums: LayerSums,
): MemoryParts => piecesMemory(split, { stage, pieces: [{ from, to }] }, sums);

/** Layers that follow one another. */
interface Piece {
  readonly from: number;
  readonly to: number;
}

interface PiecesOfStage {
  readonly stage: number;
  readonly pieces: readonly Piece[];
}

function piecesMemory(
  split: Omit<Split, "bounds">,
  { stage, pieces }: PiecesOfStage,
  sums: LayerSums,
): MemoryParts {
  const { framework, outputs } = sums;
  if (isReplicasAlone(framework)) return sharedMemory(split, sums);
  const layerCount = sums.parameters.length - 1;
  // Logits are as wide as the vocabulary is filled up; the last layer hands on one 32-bit number a token.
  const filledLogits = filledRows(split, sums) * range(outputs, layerCount - 1, layerCount);
  const lastKept = range(sums.activations, layerCount - 1, layerCount) + filledLogits;
  const hasLast = pieces.some(({ to }) => to === layerCount);
  const hasOthers = pieces.some(({ from }) => from < layerCount - 1);
  let [common, experts, largestKept, atOnce] = [0, 0, 0, 0];
  const held = pieces.map(({ from, to }) => {
    const own = heldParameters(split, { stage, from, to }, sums);
    common += own.common;
    experts += own.experts;
    const scores = split.isRecomputingScores === true ? 0 : range(sums.scores, from, to);
    const logits = to === layerCount ? filledLogits : 0;
    const kept = range(sums.activations, from, to) + scores + logits;
    const inputs = range(outputs, Math.max(0, from - 1), Math.max(0, to - 1));
    largestKept = Math.max(largestKept, kept);
    // Scores that are computed again are there for one layer at a time; its share of them is not more than those of the largest layer.
    if (split.isRecomputingScores === true) atOnce = Math.max(atOnce, largestScore(sums, from, to));
    // Recomputation keeps the input of each layer, and everything of one layer while it is computed again.
    return split.isRecomputing ? Math.min(inputs, kept) : kept;
  });
  if (split.isRecomputing)
    atOnce = Math.min(
      largestKept,
      Math.max(hasOthers ? sums.largestActivation : 0, hasLast ? lastKept : 0),
    );
  const hasAttention = pieces.some(({ from, to }) => range(sums.attentionLayers, from, to) > 0);
  if (contextDegree(split) > 1 && hasAttention) atOnce += RING_BUFFERS * blockKeyValues(sums);
  const parameters = common + experts;
  const activations = inFlight(split, stage, held) + atOnce;
  const optimizer = split.isSharded
    ? (12 * (common + experts * expertDegree(split))) / split.replicas
    : 12 * parameters;
  return {
    weightsGiB: (PARAMETER_BYTES * parameters) / GIB,
    gradientsGiB: (framework.gradientBytes * parameters) / GIB,
    optimizerGiB: optimizer / GIB,
    activationsGiB: (activations * samplesOf(split)) / split.width / GIB,
    workingGiB: (workingBytes(split, { hasLast, hasOthers }, sums) * samplesOf(split)) / GIB,
    reserveGiB: framework.reserveGiB,
  };
}

/**
 * Of one sample and GPU, the tensors of a moment: with sequence parallelism a layer's tokens are whole on each GPU for its products. SpiderFlow's experiments
 * count none.
 */
function workingBytes(
  { width, isRecomputing }: Pick<Split, "width" | "isRecomputing">,
  { hasLast, hasOthers }: { readonly hasLast: boolean; readonly hasOthers: boolean },
  sums: LayerSums,
): number {
  const { activations, largestWorking, largestProduct, lastWorking, vocabulary } = sums;
  if (sums.framework.name !== "megatron-core" || largestWorking === 0) return 0;
  const layerCount = activations.length - 1;
  const filled = vocabulary === 0 ? 1 : 1 + filledRows({ width }, sums) / vocabulary;
  // What the loss kept is gone when blocks go backward; where layers are computed again, it counts among what is there at once.
  const gone = hasLast && !isRecomputing ? range(activations, layerCount - 1, layerCount) : 0;
  const whole = width > 1 ? range(sums.outputs, 0, 1) : 0;
  return Math.max(
    hasLast ? (lastWorking * filled) / width + whole : 0,
    hasOthers ? (largestWorking - gone) / width + whole : 0,
    hasOthers ? (largestProduct - gone) / width + 2 * whole : 0,
  );
}

/** What of a sample is held at once, at most; `held`: of each run, from its forward to its backward. */
function inFlight(
  { stages, microBatches }: Pick<Split, "stages" | "microBatches">,
  stage: number,
  held: readonly number[],
): number {
  const runs = held.length;
  if (runs === 1) return Math.min(microBatches, stages - stage) * (held[0] ?? 0);
  const order = { stages, runs, microBatches };
  const ahead = aheadOf(stage, order);
  // Once the forwards ahead are done, what is held comes back with every group of forwards and backwards.
  const last = Math.min(2 * runs * microBatches, ahead + 4 * stages * runs);
  let [now, most] = [0, 0];
  for (let at = 0; at < last; at += 1) {
    const isForward = isForwardAt(at, ahead, runs * microBatches);
    const own = ownRunOf(placeAt(at, ahead, runs * microBatches), isForward, order);
    now += (isForward ? 1 : -1) * (held[own] ?? 0);
    most = Math.max(most, now);
  }
  return most;
}

const largestScore = ({ scores }: LayerSums, from: number, to: number): number => {
  let most = 0;
  for (let layer = from; layer < to; layer += 1)
    most = Math.max(most, range(scores, layer, layer + 1));
  return most;
};

/** Rows that fill the vocabulary up to a multiple for each GPU over which it is split. */
function filledRows({ width }: Pick<Split, "width">, { vocabulary, framework }: LayerSums): number {
  const multiple = framework.vocabularyMultiple * width;
  return Math.ceil(vocabulary / multiple) * multiple - vocabulary;
}

/** Of one GPU; those of experts are among the common ones where each replica has all. */
function heldParameters(
  { width, stages, ...split }: Pick<Split, "width" | "stages" | "experts">,
  { stage, from, to }: { readonly stage: number; readonly from: number; readonly to: number },
  sums: LayerSums,
): { readonly common: number; readonly experts: number } {
  const degree = expertDegree(split);
  const shared = degree === 1 ? 0 : range(sums.expertParameters, from, to);
  const { tiedParameters, hidden, framework } = sums;
  const layerCount = sums.parameters.length - 1;
  const filled = filledRows({ width }, sums) * hidden;
  const [isFirst, isLast] = [from === 0, to === layerCount && stage === stages - 1];
  const hasOwnHead = isLast && (tiedParameters === 0 || stages > 1);
  const all =
    range(sums.parameters, from, to) -
    shared +
    (isLast && stages > 1 ? tiedParameters : 0) +
    (isFirst ? filled : 0) +
    (hasOwnHead ? filled : 0);
  const whole = range(sums.wholeParameters, from, to);
  const filling = framework.name === "megatron-core" ? 1 + BUCKET_SHARE : 1;
  return {
    common: ((all - whole) / width + whole) * filling,
    experts: (shared / width / degree) * filling,
  };
}
