/**
 * @file The layers of a transformer for one sample: embedding, blocks, head, with parameters, FLOPs and bytes from its shape.
 *
 * Per sample of s tokens, width h, feed-forward f, q and k the widths of all queries and of all keys, 16-bit numbers: attention has 2h (q + k)
 * weights, the feed-forward part 2hf, three matrices where it is gated; latent attention has its ranks instead (DeepSeek-V2, §2.1). Of experts
 * all are kept and the chosen ones compute; a token goes to each of its chosen ones, and a result comes back, 2sh bytes each way. Forward FLOPs = 2 × s × weights that compute + 4s²q for the scores and their use; the output of a
 * layer has 2sh bytes. Activations kept for backward = 18sh + 4sf bytes (Korthikanti et al. 2022, §4.1: 34sh for f = 4h) where it is not gated,
 * else 8sh + 4s (q + k) + 6sf (no dropout, three tensors of width f) and at least 34sh; latent attention keeps its latents, before and after their norms, and
 * the wide queries, keys, values and results instead of q and k; 5as² for the scores of a heads where attention is not fused.
 * Logits are kept in 32 bits. Beside what is kept, a block's backward has gradients of its output and of the tensors of the activation, one of which is gone by
 * then: 3sh + 2sf bytes, gated 2sh + 4sf; a moment later sh + 2sf, gated 2sh + 2sf; the loss has the logits in 16 bits as well (data/plan/megatron-core-memory.py).
 *
 * PyTorch's own modules keep every input of an operation (`eagerBytes`): 8h + 8q for norms, residuals and attention (shared keys are repeated), 4f (inputs of the activation
 * and of the second matrix) or 8f where it is gated, of each token; norms their two statistics, attention one sum a head, in 32 bits. A loss keeps three
 * tensors of the logits in 32 bits at once.
 */

import {
  isGated,
  type LatentShape,
  type TransformerShape,
} from "../../domain/model/transformer-shape.ts";
import type { PlanLayer, PlanModel } from "./models.ts";

const BYTES = 2;
/** Of one element, beyond the input and output of both norms of a block: RMSNorm is made of operations in 32 bits. */
const RMS_NORM_BYTES = 13;

export function presetModel(name: string, shape: TransformerShape): PlanModel {
  const { layers, hidden: h, vocabulary, sequence: s, isTied, image, experts } = shape;
  const dense = blockLayer(shape, 0);
  const mixed = experts === undefined ? dense : blockLayer(shape, layers);
  return {
    name,
    sample:
      image === undefined
        ? `sequence of ${s} tokens`
        : `image of ${image.imageSize} × ${image.imageSize}`,
    layers: [
      embeddingLayer(shape),
      ...Array.from({ length: layers }, (_, at) => ({
        ...(at < (experts?.denseLayers ?? 0) ? dense : mixed),
        name: `block ${at}`,
      })),
      headLayer(shape),
    ],
    splitOf: commonDivisor(shape.keyValueHeads, s),
    tiedParameters: isTied ? vocabulary * h : 0,
    shape,
  };
}

/** Heads are shared out whole, and so are the tokens of a sequence. */
const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b));

const normOf = ({ norm, hidden }: TransformerShape): number =>
  norm === "rms" ? hidden : 2 * hidden;

function embeddingLayer(shape: TransformerShape): PlanLayer {
  const { hidden: h, vocabulary, positions, sequence: s, isEncoder, image } = shape;
  const patch = image === undefined ? 0 : image.patchSize ** 2 * image.channels;
  // A projection of patches with its bias, and the class token.
  const patches = image === undefined ? 0 : patch * h + 2 * h;
  const whole = positions * h + (isEncoder ? 2 * h + normOf(shape) : 0) + patches;
  return {
    name: "embedding",
    parameters: vocabulary * h + whole,
    wholeParameters: whole,
    forwardFlops: 2 * s * patch * h,
    outputBytes: BYTES * s * h,
    // With the mask of its dropout.
    activationBytes: (isGated(shape) ? BYTES : BYTES + 1) * s * h,
    eagerBytes: BYTES * s * h,
    largestMatrix: Math.max(vocabulary, positions, patch) * h,
    tensorSyncs: 1,
  };
}

/** BERT ends in a pooler; where the output layer is not tied it is a matrix of its own. */
function headLayer(shape: TransformerShape): PlanLayer {
  const { hidden: h, vocabulary, sequence: s, isEncoder, isTied, hasHeadBias = false } = shape;
  const whole = isEncoder ? h * h + h : normOf(shape);
  return {
    name: "head",
    parameters: whole + (isTied ? 0 : vocabulary * h) + (hasHeadBias ? vocabulary : 0),
    wholeParameters: whole,
    forwardFlops: 2 * s * vocabulary * h + (isEncoder ? 2 * h * h : 0),
    outputBytes: 4 * s,
    activationBytes: 4 * s * (h + vocabulary),
    eagerBytes:
      s * (4 * h + (shape.norm === "rms" ? (RMS_NORM_BYTES / 2) * h : 0) + 12 * vocabulary),
    workingBytes: BYTES * s * vocabulary,
    largestMatrix: Math.max(vocabulary, isEncoder ? h : 0) * h,
    tensorSyncs: 1,
  };
}

/** `at`: its place, because the first blocks may have no experts. */
function blockLayer(shape: TransformerShape, at: number): PlanLayer {
  const { hidden: h, heads, keyValueHeads, headSize, sequence: s, latent, experts } = shape;
  const hasGate = isGated(shape);
  const [queries, keys] = [heads * headSize, keyValueHeads * headSize];
  const attention =
    latent === undefined ? 2 * h * (queries + keys) : latentWeights(latent, { h, heads });
  const expertsHere = at < (experts?.denseLayers ?? 0) ? undefined : experts;
  const matrix = (hasGate ? 3 : 2) * h;
  const router =
    expertsHere === undefined
      ? 0
      : h * (expertsHere.count + (expertsHere.hasSharedGate === true ? 1 : 0));
  const shared = expertsHere?.sharedFeedForward ?? 0;
  const [kept, used] =
    expertsHere === undefined
      ? [shape.feedForward, shape.feedForward]
      : [
          expertsHere.count * expertsHere.feedForward + shared,
          expertsHere.chosen * expertsHere.feedForward + shared,
        ];
  const { blockNorms = 2 } = shape;
  const norms =
    blockNorms * normOf(shape) +
    (shape.hasQueryNorms === true ? 2 * headSize : 0) +
    (latent === undefined ? 0 : latent.queryRank + latent.keyValueRank);
  const qkvBiases = shape.biases === "none" ? 0 : queries + 2 * keys;
  const otherBiases = shape.biases === "all" ? shape.feedForward + 2 * h : 0;
  // The experts keep their own copies of tokens, in place of the one input of a feed-forward part.
  const copies = expertsHere === undefined ? 0 : expertsHere.chosen - (shared > 0 ? 0 : 1);
  const activations =
    BYTES * h * (copies + Math.max(0, blockNorms - 2)) +
    (hasGate ? Math.max(34 * h, 8 * h + attentionBytes(shape) + 6 * used) : 18 * h + 4 * used);
  const norms32 = shape.norm === "rms" ? (RMS_NORM_BYTES * h * Math.max(2, blockNorms)) / 2 : 2 * 8;
  const eager = 8 * h + 8 * queries + (hasGate ? 8 : 4) * used + 4 * heads + norms32;
  const scoreWidth =
    latent === undefined
      ? 2 * queries
      : heads * (latent.plainSize + latent.rotarySize + latent.valueSize);
  const scoreFlops = 2 * s * s * scoreWidth;
  return {
    name: "block",
    parameters: attention + matrix * kept + router + norms + qkvBiases + otherBiases,
    // Norms and routers, and the biases that are added after sums over the GPUs.
    wholeParameters: norms + router + (shape.biases === "all" ? 2 * h : 0),
    forwardFlops: 2 * s * (attention + matrix * used + router) + scoreFlops,
    outputBytes: BYTES * s * h,
    activationBytes: s * activations,
    // Tokens are written to their experts and read back.
    eagerBytes: s * (eager + (expertsHere === undefined ? 0 : 4 * h * expertsHere.chosen)),
    workingBytes: s * (BYTES * h * copies + (hasGate ? 2 * h + 4 * used : 3 * h + 2 * used)),
    productBytes: s * (BYTES * h * copies + (hasGate ? 2 * h : h) + 2 * used),
    largestMatrix: h * Math.max(queries, shape.feedForward),
    scoreBytes: 5 * heads * s * s,
    scoreFlops,
    ...(expertsHere === undefined
      ? { tensorSyncs: 2 }
      : {
          expertParameters: matrix * expertsHere.count * expertsHere.feedForward,
          expertBytes: BYTES * s * h * expertsHere.chosen,
          // A token is there once for each of its experts when these are split over GPUs.
          tensorSyncs: 1 + expertsHere.chosen + (shared > 0 ? 1 : 0),
        }),
  };
}

/** Of a token in 16 bits: queries, keys, values and what attention makes of them; both latents before and after their norms. */
function attentionBytes({ heads, keyValueHeads, headSize, latent }: TransformerShape): number {
  if (latent === undefined) return 2 * BYTES * headSize * (heads + keyValueHeads);
  const { queryRank, keyValueRank, plainSize, rotarySize, valueSize } = latent;
  const wide = heads * (plainSize + rotarySize + valueSize);
  return 2 * BYTES * (queryRank + keyValueRank + wide);
}

/** Keys and values of a block and sample, as attention takes them: latents are unfolded by then. */
export function keyValueBytes(shape: TransformerShape): number {
  const { heads, keyValueHeads, headSize, latent, sequence } = shape;
  const width =
    latent === undefined
      ? 2 * keyValueHeads * headSize
      : heads * (latent.plainSize + latent.rotarySize + latent.valueSize);
  return BYTES * sequence * width;
}

/** Down and up for queries, down with the rotated part and up for keys and values, and the way out. */
function latentWeights(
  { queryRank, keyValueRank, plainSize, rotarySize, valueSize }: LatentShape,
  { h, heads }: { readonly h: number; readonly heads: number },
): number {
  const queryWidth = heads * (plainSize + rotarySize);
  const queries = queryRank === 0 ? h * queryWidth : queryRank * (h + queryWidth);
  const down = h * (keyValueRank + rotarySize);
  const up = keyValueRank * heads * (plainSize + valueSize);
  return queries + down + up + heads * valueSize * h;
}
