/**
 * @file What one GPU of a tensor group of `width` GPUs keeps, reads and computes of each block of a language model, in 16-bit numbers.
 *
 * Matrices are shared out over the group; norms and routers are whole on every GPU. Where the group is wider than there are key-value heads, these
 * heads are repeated, and so are their matrices. Latent attention keeps one narrow vector a token, whole on every GPU, and multiplies with it directly
 * while it decodes (DeepSeek-V2, §2.1). Of experts a batch of b tokens reads the share 1 − (1 − chosen/count)^b, as if choices were even and
 * independent. Cost: O(blocks).
 */

import { isGated, type TransformerShape } from "../../domain/model/transformer-shape.ts";
import { presetModel } from "../parallelism/transformer-layers.ts";

/** Of one GPU. */
export interface BlockShare {
  /** Weights outside of the experts that tokens choose. */
  readonly denseBytes: number;
  /** All those experts together. */
  readonly expertBytes: number;
  /** Of one token, without attention's scores. */
  readonly tokenFlops: number;
  /** Of one token with one token before it: the score and its use, in a prompt and while it decodes. */
  readonly promptPairFlops: number;
  readonly decodePairFlops: number;
  /** Keys and values of one token. */
  readonly keyValueBytes: number;
}

export interface ServedModel {
  readonly name: string;
  readonly shape: TransformerShape;
  readonly width: number;
  readonly blocks: readonly BlockShare[];
  /** Of the first stage. */
  readonly embeddingBytes: number;
  /** Of the last stage, the output matrix included. */
  readonly headBytes: number;
  /** Of the embedding, where the output layer is the same matrix: a stage that has both keeps it once. */
  readonly sharedBytes: number;
  readonly headFlops: number;
}

const BYTES = 2;
/** Engines round the vocabulary up to a multiple of this. */
const VOCABULARY_STEP = 64;

/** Why its layers cannot be split over so many GPUs; undefined when they can. */
export function widthProblem(shape: TransformerShape, width: number): string | undefined {
  const { heads, keyValueHeads, feedForward, vocabulary, experts, latent } = shape;
  const rows = Math.ceil(vocabulary / VOCABULARY_STEP) * VOCABULARY_STEP;
  const sizes: readonly (readonly [string, number])[] = [
    ["heads", heads],
    ["columns of the feed-forward part", feedForward],
    ["rows of the vocabulary", rows],
    ...(experts === undefined ? [] : ([["columns of an expert", experts.feedForward]] as const)),
  ];
  const odd = sizes.find(([, size]) => size % width !== 0);
  if (odd !== undefined) return `${odd[1]} ${odd[0]} are not divided by ${width}`;
  const isRepeated = keyValueHeads % width === 0 || width % keyValueHeads === 0;
  return latent !== undefined || isRepeated
    ? undefined
    : `${keyValueHeads} key-value heads are neither divided by ${width} nor repeated evenly`;
}

export function servedModel(name: string, shape: TransformerShape, width: number): ServedModel {
  // Of one token, so that FLOPs are those of a token and of a pair.
  const { layers } = presetModel(name, { ...shape, sequence: 1 });
  const { hidden: h, vocabulary, isTied } = shape;
  const [embedding, head] = [layers[0], layers.at(-1)];
  const table = isTied ? vocabulary * h : 0;
  const onOne = (parameters: number, whole: number): number =>
    BYTES * (whole + (parameters - whole) / width);
  const headWhole = head?.wholeParameters ?? 0;
  return {
    name,
    shape,
    width,
    blocks: layers.slice(1, -1).map((layer, at): BlockShare => {
      const whole = (layer.wholeParameters ?? 0) + repeatedWeights(shape, width);
      const expertBytes = (BYTES * expertWeights(shape, at)) / width;
      const pair = layer.scoreFlops ?? 0;
      return {
        denseBytes: onOne(layer.parameters, Math.min(whole, layer.parameters)) - expertBytes,
        expertBytes,
        tokenFlops: (layer.forwardFlops - pair) / width,
        promptPairFlops: pair / width,
        decodePairFlops: decodePairFlops(shape, pair) / width,
        keyValueBytes: keyValueBytes(shape, width),
      };
    }),
    embeddingBytes: onOne(embedding?.parameters ?? 0, embedding?.wholeParameters ?? 0),
    headBytes: onOne((head?.parameters ?? 0) + table, headWhole),
    sharedBytes: (BYTES * table) / width,
    headFlops: (2 * vocabulary * h) / width,
  };
}

/** The share of its experts that a batch of so many tokens reads. */
export function expertShare({ experts }: TransformerShape, tokens: number): number {
  if (experts === undefined) return 0;
  return 1 - (1 - Math.min(1, experts.chosen / experts.count)) ** tokens;
}

/** Weights of the experts that tokens choose in one block. */
function expertWeights(shape: TransformerShape, at: number): number {
  const { experts, hidden } = shape;
  if (experts === undefined || at < experts.denseLayers) return 0;
  return experts.count * experts.feedForward * hidden * (isGated(shape) ? 3 : 2);
}

/** Weights, counted once, that stand whole on each GPU where they would otherwise be shared out. */
function repeatedWeights(shape: TransformerShape, width: number): number {
  const { hidden: h, keyValueHeads, headSize, latent } = shape;
  if (latent !== undefined)
    return width === 1 ? 0 : h * (latent.queryRank + latent.keyValueRank + latent.rotarySize);
  if (width <= keyValueHeads) return 0;
  // A GPU has one key-value head: keys and values of `headSize` columns, whole / width of which is counted already.
  return (2 * h * headSize * (width - keyValueHeads)) / (width - 1);
}

const keyValueBytes = (
  { keyValueHeads, headSize, latent }: TransformerShape,
  width: number,
): number =>
  latent === undefined
    ? 2 * BYTES * headSize * Math.max(1, keyValueHeads / width)
    : BYTES * (latent.keyValueRank + latent.rotarySize);

const decodePairFlops = ({ heads, latent }: TransformerShape, pair: number): number =>
  latent === undefined ? pair : 2 * heads * (2 * latent.keyValueRank + latent.rotarySize);
