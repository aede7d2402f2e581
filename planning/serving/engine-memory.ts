/**
 * @file The memory of each GPU that serves one stage of a replica, and the tokens whose keys and values fit beside the weights.
 *
 * An engine takes `memoryShare` of a card and keeps, in this order: weights; a reserve for the CUDA context, NCCL's buffers and captured graphs; the
 * activations of one step of `stepTokens` tokens, as its start-up run measures them; and keys and values in blocks of `blockTokens` tokens with all the
 * rest. Activations: 4h for the residual, the normed value and the two sums, and the wider of attention (queries twice, keys and values) and the
 * feed-forward part (three tensors, two where it is not gated), 2 bytes each; logits of `mostRequests` requests three times in 32 bits, on every GPU.
 * Sources: vLLM's `determine_available_memory` and its defaults; weights as in `served-model.ts`. Cost: O(blocks).
 */

import { isGated } from "../../domain/model/transformer-shape.ts";
import type { ServedModel } from "./served-model.ts";

/** The defaults that vLLM and SGLang share or come near to; Orbweaver passes what they do not. */
export const ENGINE: EngineSettings = Object.freeze({
  /** The share of a card that an engine takes: vLLM's default. */
  memoryShare: 0.9,
  /** GiB of a card for the CUDA context, NCCL and captured graphs: as much as training reserves. */
  reserveGiB: 1.5,
  /** Tokens of one step, prompts cut into pieces: vLLM's default for a service. */
  stepTokens: 2048,
  /** Requests that decode together, at most: vLLM's default. */
  mostRequests: 256,
  /** Tokens of one block of keys and values: vLLM's default. */
  blockTokens: 16,
});

export interface EngineSettings {
  readonly memoryShare: number;
  readonly reserveGiB: number;
  readonly stepTokens: number;
  readonly mostRequests: number;
  readonly blockTokens: number;
}

/** GiB of one GPU of a stage. */
export interface ServingMemory {
  readonly weightsGiB: number;
  readonly activationsGiB: number;
  readonly reserveGiB: number;
  /** Left for keys and values; negative when the rest does not fit. */
  readonly keyValueGiB: number;
  /** Tokens whose keys and values fit, whole blocks; 0 when the rest does not fit. */
  readonly tokens: number;
}

const GIB = 2 ** 30;

/** First block of each stage, and the number of blocks behind the last: as vLLM deals them out. */
export function stageStarts(blocks: number, stages: number): readonly number[] {
  const least = Math.floor(blocks / stages);
  const left = blocks % stages;
  const starts = [0];
  for (let stage = 0; stage < stages; stage += 1) {
    // The blocks that are left go to the stages before the last one, the later first.
    const hasMore = stage < stages - 1 && stage >= stages - 1 - left;
    starts.push((starts[stage] ?? 0) + least + (hasMore ? 1 : 0));
  }
  return starts;
}

export function stageMemory(
  model: ServedModel,
  { stages, memoryGiB }: { readonly stages: number; readonly memoryGiB: number },
): readonly ServingMemory[] {
  const starts = stageStarts(model.blocks.length, stages);
  return Array.from({ length: stages }, (_, stage) => {
    const [isFirst, isLast] = [stage === 0, stage === stages - 1];
    const held = model.blocks.slice(starts[stage], starts[stage + 1]);
    const weights =
      held.reduce((sum, { denseBytes, expertBytes }) => sum + denseBytes + expertBytes, 0) +
      (isFirst ? model.embeddingBytes : 0) +
      (isLast ? model.headBytes : 0) -
      (isFirst && isLast ? model.sharedBytes : 0);
    const activations = stepBytes(model) + (isLast ? logitBytes(model) : 0);
    const left =
      ENGINE.memoryShare * memoryGiB * GIB - weights - activations - ENGINE.reserveGiB * GIB;
    const perToken = held.reduce((sum, { keyValueBytes }) => sum + keyValueBytes, 0);
    const blocks = perToken === 0 ? 0 : Math.floor(left / (perToken * ENGINE.blockTokens));
    return {
      weightsGiB: weights / GIB,
      activationsGiB: activations / GIB,
      reserveGiB: ENGINE.reserveGiB,
      keyValueGiB: left / GIB,
      tokens: Math.max(0, blocks) * ENGINE.blockTokens,
    };
  });
}

function stepBytes({ shape, width }: ServedModel): number {
  const { hidden, heads, keyValueHeads, headSize, latent, experts } = shape;
  const queries = latent === undefined ? headSize : latent.plainSize + latent.rotarySize;
  const keys = 2 * Math.max(keyValueHeads, width) * headSize;
  const attention = (2 * heads * queries + keys) / width;
  const used =
    experts === undefined
      ? shape.feedForward
      : Math.max(
          shape.feedForward,
          experts.chosen * experts.feedForward + experts.sharedFeedForward,
        );
  const gates = isGated(shape) ? 3 : 2;
  // Tokens are written to their experts and read back, unsplit.
  const copies = experts === undefined ? 0 : 2 * experts.chosen * hidden;
  const widest = Math.max(attention, (gates * used) / width + copies);
  return 2 * ENGINE.stepTokens * (4 * hidden + widest);
}

const logitBytes = ({ shape: { vocabulary } }: ServedModel): number =>
  3 * 4 * ENGINE.mostRequests * vocabulary;
