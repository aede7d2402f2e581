/**
 * @file The memory of a GPU where replicas share out the states of a whole model: DeepSpeed's ZeRO 1 to 3, and FSDP2.
 *
 * DeepSpeed: ZeRO 2 keeps 2 + 18/d bytes a parameter, ZeRO 3 18/d and two 16-bit copies of the largest matrix, as its own estimators say
 * (`estimate_zero2_model_states_mem_needs`, `estimate_zero3_…`); ZeRO 1 keeps 16-bit gradients and their 32-bit sums whole. FSDP2: parameters and Adam's
 * moments in 32 bits, 12/d, the gathered embedding and head, and what is there at the worst of these moments: at the loss all activations; in the
 * backward of the last block but one and of the first but one the gradients of the head, a block that is gathered, the one fetched ahead, its gradients
 * in both types, the shares that are summed already, and what is left of activations; at the end the gradients of embedding and head. Activations are
 * those of PyTorch's own modules. The shares of a block's activations are fitted to torch's FSDPMemTracker (data/plan/memory). Cost: O(1).
 */

import { PARAMETER_BYTES } from "./framework.ts";
import {
  blockKeyValues,
  contextDegree,
  range,
  samplesOf,
  type LayerSums,
  type Split,
} from "./split.ts";
import type { MemoryParts } from "./memory-parts.ts";

const GIB = 2 ** 30;
const PADDING = 1e-4;

export type Shared = Pick<
  Split,
  "replicas" | "contexts" | "microBatch" | "isSharded" | "shards" | "isRecomputing"
>;

export function sharedMemory(split: Shared, sums: LayerSums): MemoryParts {
  const total = sums.parameters.at(-1) ?? 0;
  const activations = keptBytes(split, sums) * samplesOf(split);
  const { reserveGiB } = sums.framework;
  const parts = (
    weights: number,
    { gradients, optimizer }: { readonly gradients: number; readonly optimizer: number },
    kept = activations,
  ): MemoryParts => ({
    weightsGiB: weights / GIB,
    gradientsGiB: gradients / GIB,
    optimizerGiB: optimizer / GIB,
    activationsGiB: kept / GIB,
    workingGiB: 0,
    reserveGiB,
  });
  // The first dimension of each tensor is filled up to the GPUs that share it.
  const share = (total * (1 + PADDING)) / split.replicas;
  if (sums.framework.name === "fsdp2") return fullyShared(parts, { share, split, sums });
  if (split.shards === "parameters")
    return parts(2 * share + 2 * PARAMETER_BYTES * sums.largestMatrix, {
      gradients: 4 * share,
      optimizer: 12 * share,
    });
  if (split.shards === "gradients")
    return parts(PARAMETER_BYTES * total, { gradients: 6 * share, optimizer: 12 * share });
  const optimizer = 12 * (split.isSharded ? share : total);
  return parts(PARAMETER_BYTES * total, { gradients: 6 * total, optimizer });
}

type Parts = (
  weights: number,
  rest: { readonly gradients: number; readonly optimizer: number },
  kept: number,
) => MemoryParts;

interface Kept {
  readonly share: number;
  readonly split: Shared;
  readonly sums: LayerSums;
}

/** Of the eager bytes of a block: what a backward that ends still has of it, and one that follows a second forward at its worst. */
const ENDING_SHARE = 0.65;
const AGAIN_SHARE = 1.45;

function fullyShared(parts: Parts, { share, split, sums }: Kept): MemoryParts {
  const {
    eager,
    outputs,
    largestBlock: block,
    firstParameters,
    lastParameters,
    tiedParameters,
  } = sums;
  const layers = eager.length - 1;
  const blocks = Math.max(0, layers - 2);
  const { microBatch, isRecomputing } = split;
  const samples = samplesOf(split);
  const embedding = range(eager, 0, 1) * samples;
  const head = range(eager, layers - 1, layers) * samples;
  const ofBlocks = isRecomputing
    ? range(outputs, 0, Math.max(1, layers - 2))
    : range(eager, 1, Math.max(1, layers - 1));
  const kept = ofBlocks * samples;
  const largest = sums.largestEager * samples;
  const [weights, moments] = [4 * share, 8 * share];
  const ends = PARAMETER_BYTES * (firstParameters + lastParameters);
  const headGradients = PARAMETER_BYTES * (lastParameters + tiedParameters);
  // Of a block: gathered, the next one gathered ahead, and its gradients on their way to be summed.
  const moving = (2 * PARAMETER_BYTES + 4) * block;
  // Where several share out a sequence, each gathers all keys and values of a block, and has their gradients.
  const gathered = contextDegree(split) > 1 ? 2 * blockKeyValues(sums) * microBatch : 0;
  const working =
    gathered +
    Math.max(
      PARAMETER_BYTES * block + ENDING_SHARE * largest,
      isRecomputing ? AGAIN_SHARE * largest : 0,
    );
  const sharesOfBlocks =
    (4 * share * (sumOf(sums) - firstParameters - lastParameters)) / Math.max(1, sumOf(sums));
  const inBackward = (done: number): { readonly gradients: number; readonly kept: number } => ({
    gradients: headGradients + moving + (4 * block * done * share) / Math.max(1, sumOf(sums)),
    kept: embedding + (kept * Math.max(0, blocks - 1 - done)) / Math.max(1, blocks) + working,
  });
  const moments32 = [
    { gradients: 0, kept: embedding + kept + head },
    ...(blocks === 0 ? [] : [inBackward(1), inBackward(Math.max(1, blocks - 2))]),
    // The ends' own gradients are summed last, in both types; their parameters are gone then.
    { gradients: sharesOfBlocks + 2 * ends, kept: 0 },
  ];
  const worst = moments32.reduce((a, b) => (a.gradients + a.kept >= b.gradients + b.kept ? a : b));
  return parts(weights + ends, { gradients: worst.gradients, optimizer: moments }, worst.kept);
}

const sumOf = ({ parameters }: LayerSums): number => parameters.at(-1) ?? 0;

/** Of one sample: all layers, or with recomputation the input of each and everything of one of them; the head's are there in any case. */
function keptBytes({ isRecomputing }: Shared, { eager, outputs, largestEager }: LayerSums): number {
  const count = eager.length - 1;
  const all = eager[count] ?? 0;
  if (!isRecomputing) return all;
  const head = range(eager, count - 1, count);
  const again = range(outputs, 0, count - 1) + Math.max(head, AGAIN_SHARE * largestEager);
  return Math.min(all, again);
}
