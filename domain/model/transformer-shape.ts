/** @file The shape of a transformer: what its parameters, activations and FLOPs follow from. */

import type { ServiceGoal } from "./engine-names.ts";

export interface TransformerShape {
  /** As the model's makers name it. */
  readonly family: string;
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  /** Fewer than `heads` where queries share keys and values. */
  readonly keyValueHeads: number;
  /** Of one head; `hidden` ÷ `heads` in most models. */
  readonly headSize: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  /** Rows of a learned table of positions; 0 where positions are rotations. */
  readonly positions: number;
  /** Tokens of a sample that training uses. */
  readonly sequence: number;
  /** Tokens of the longest sequence that it takes as it is, stretched rotations included; absent where nobody says. */
  readonly maxTokens?: number;
  /** `swiglu` and `geglu` are gated: three matrices, the others two. */
  readonly activation: "gelu" | "relu" | "swiglu" | "geglu";
  /** `layer` has scale and shift, `rms` scale alone. */
  readonly norm: "layer" | "rms";
  readonly normEpsilon: number;
  /** Matrices with biases. */
  readonly biases: "all" | "qkv" | "none";
  /** The output layer is the embedding. */
  readonly isTied: boolean;
  /** A pooler and the tables of token types and norms that BERT has. */
  readonly isEncoder: boolean;
  /** Base of the rotations. */
  readonly ropeBase?: number;
  /** How rotations are stretched beyond the positions of pre-training. */
  readonly ropeScaling?: { readonly kind: string; readonly factor: number };
  /** The share of a head that is rotated, where it is not all. */
  readonly rotaryShare?: number;
  /** Norms of each head's queries and keys. */
  readonly hasQueryNorms?: boolean;
  /** Norms of a block: 1 where attention and feed-forward part take the same input, 4 where each has one before and one behind it; 2 where absent. */
  readonly blockNorms?: 1 | 4;
  /** The output layer has a bias. */
  readonly hasHeadBias?: boolean;
  readonly experts?: ExpertShape;
  /** Attention whose keys and values are kept in one narrow vector. */
  readonly latent?: LatentShape;
  /** Samples are images; there is no vocabulary. */
  readonly image?: ImageShape;
}

/** A mixture of experts in place of the feed-forward part. */
export interface ExpertShape {
  readonly count: number;
  /** Of each token. */
  readonly chosen: number;
  /** Width of one. */
  readonly feedForward: number;
  /** Width of what every token passes beside them. */
  readonly sharedFeedForward: number;
  /** A gate weighs that part for each token: `hidden` weights. */
  readonly hasSharedGate?: boolean;
  /** The first layers, which have no experts. */
  readonly denseLayers: number;
}

/** DeepSeek's multi-head latent attention: ranks, and sizes of one head. */
export interface LatentShape {
  /** 0 where queries are projected at once. */
  readonly queryRank: number;
  readonly keyValueRank: number;
  readonly plainSize: number;
  readonly rotarySize: number;
  readonly valueSize: number;
}

export interface ImageShape {
  readonly imageSize: number;
  readonly patchSize: number;
  readonly channels: number;
}

/** Whether its feed-forward parts have a third matrix. */
export const isGated = ({ activation }: Pick<TransformerShape, "activation">): boolean =>
  activation === "swiglu" || activation === "geglu";

/** Why its samples cannot have so many tokens; undefined when they can. */
export function sequenceProblem(
  { image, positions }: TransformerShape,
  sequence: number,
): { readonly message: string; readonly remedy: string } | undefined {
  if (image !== undefined)
    return {
      message: "the tokens of a sample are the patches of its image",
      remedy: "leave it out",
    };
  if (positions > 0 && sequence > positions)
    return {
      message: `the model has ${positions} positions, not ${sequence}`,
      remedy: `write at most ${positions}`,
    };
  return undefined;
}

/** Why requests of so many tokens cannot be answered; undefined when they can. */
export function requestProblem(
  { maxTokens, positions }: TransformerShape,
  goal: Pick<ServiceGoal, "promptTokens" | "outputTokens" | "contextTokens">,
): { readonly message: string; readonly remedy: string } | undefined {
  const { promptTokens, outputTokens, contextTokens } = goal;
  if (promptTokens + outputTokens > contextTokens)
    return {
      message: `a usual request has ${promptTokens} + ${outputTokens} tokens, the longest ${contextTokens}`,
      remedy: "raise the longest, or lower the others",
    };
  const most = maxTokens ?? (positions > 0 ? positions : Infinity);
  return contextTokens > most
    ? {
        message: `the model takes ${most} tokens, and a request may have ${contextTokens}`,
        remedy: `let it have at most ${most}`,
      }
    : undefined;
}

/** Why it makes no text, token by token; undefined when it does. */
export const decoderProblem = ({
  image,
  isEncoder,
  family,
}: TransformerShape): string | undefined =>
  image !== undefined || isEncoder
    ? `a model of type ${family} makes no text, token by token`
    : undefined;
