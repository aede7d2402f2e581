/**
 * @file The shapes of well-known transformers.
 *
 * Sources: the papers of GPT-2, OPT, BERT, LLaMA 2 and Llama 3, and the published configurations. GPT-2 350M is GPT-2 medium; 1.3B and 4.2B are no
 * published GPT-2: they keep its block and vocabulary with the width and depth that give those counts (24 × 2048, 36 × 3072).
 */

import type { TransformerShape } from "./transformer-shape.ts";

type Rest = Partial<Pick<TransformerShape, "keyValueHeads" | "feedForward">>;

const shape = (
  family: keyof typeof FAMILY,
  [layers, hidden, heads]: readonly [number, number, number],
  rest: Rest = {},
): TransformerShape => ({
  family,
  layers,
  hidden,
  heads,
  keyValueHeads: rest.keyValueHeads ?? heads,
  headSize: hidden / heads,
  feedForward: rest.feedForward ?? 4 * hidden,
  ...FAMILY[family],
});

const GPT = {
  activation: "gelu",
  norm: "layer",
  normEpsilon: 1e-5,
  biases: "all",
  isTied: true,
  isEncoder: false,
} as const;

const FAMILY = {
  gpt2: { ...GPT, vocabulary: 50_257, positions: 1024, sequence: 1024, maxTokens: 1024 },
  // OPT's table of positions has two rows more than it has positions.
  opt: {
    ...GPT,
    activation: "relu",
    vocabulary: 50_272,
    positions: 2050,
    sequence: 2048,
    maxTokens: 2048,
  },
  bert: {
    ...GPT,
    normEpsilon: 1e-12,
    isEncoder: true,
    vocabulary: 30_522,
    positions: 512,
    sequence: 512,
    maxTokens: 512,
  },
  llama: {
    activation: "swiglu",
    norm: "rms",
    normEpsilon: 1e-5,
    biases: "none",
    isTied: false,
    isEncoder: false,
    vocabulary: 32_000,
    positions: 0,
    sequence: 4096,
    maxTokens: 4096,
    ropeBase: 10_000,
  },
} as const;

/** Eight key-value heads, a larger vocabulary and slower rotations. */
const llama3 = (
  size: readonly [number, number, number],
  rest: Pick<Rest, "feedForward">,
): TransformerShape => ({
  ...shape("llama", size, { ...rest, keyValueHeads: 8 }),
  vocabulary: 128_256,
  sequence: 8192,
  maxTokens: 8192,
  ropeBase: 500_000,
});

export const MODEL_PRESETS: ReadonlyMap<string, TransformerShape> = new Map([
  ["gpt2-350m", shape("gpt2", [24, 1024, 16])],
  ["gpt2-1.3b", shape("gpt2", [24, 2048, 16])],
  ["gpt2-4.2b", shape("gpt2", [36, 3072, 24])],
  ["opt-6.7b", shape("opt", [32, 4096, 32])],
  ["opt-13b", shape("opt", [40, 5120, 40])],
  ["bert-110m", shape("bert", [12, 768, 12])],
  ["bert-340m", shape("bert", [24, 1024, 16])],
  ["llama-7b", shape("llama", [32, 4096, 32], { feedForward: 11_008 })],
  ["llama-13b", shape("llama", [40, 5120, 40], { feedForward: 13_824 })],
  ["llama-70b", shape("llama", [80, 8192, 64], { feedForward: 28_672, keyValueHeads: 8 })],
  ["llama-3-8b", llama3([32, 4096, 32], { feedForward: 14_336 })],
  ["llama-3-70b", llama3([80, 8192, 64], { feedForward: 28_672 })],
  // Its rotations are stretched.
  [
    "llama-3.1-405b",
    { ...llama3([126, 16_384, 128], { feedForward: 53_248 }), maxTokens: 131_072 },
  ],
]);

/** `GPT2-1.3B`, `gpt2_1.3b` and `gpt-2 1.3B` are one name. */
export const plainModelName = (name: string): string =>
  name.toLowerCase().replace(/[^a-z0-9.]/g, "");

export function modelPreset(name: string): readonly [string, TransformerShape] | undefined {
  for (const entry of MODEL_PRESETS)
    if (plainModelName(entry[0]) === plainModelName(name)) return entry;
  return undefined;
}
