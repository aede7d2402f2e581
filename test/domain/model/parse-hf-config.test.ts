/** @file `config.json` of Hugging Face: the published number of parameters of each family, and what is refused. */

import { describe, expect, it, test } from "vitest";
import {
  HF_MODEL_TYPES,
  isHfConfig,
  parseHfConfig,
} from "../../../domain/model/parse-hf-config.ts";
import type { TransformerShape } from "../../../domain/model/transformer-shape.ts";
import { forwardFlops, parameterCount } from "../../../planning/parallelism/models.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";

function shapeOf(config: Readonly<Record<string, unknown>>): TransformerShape {
  const parsed = parseHfConfig(JSON.stringify(config), "config.json");
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.shape;
}

const gated = (
  type: string,
  [layers, hidden, heads, keyValueHeads]: readonly [number, number, number, number],
  rest: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> => ({
  model_type: type,
  num_hidden_layers: layers,
  hidden_size: hidden,
  num_attention_heads: heads,
  num_key_value_heads: keyValueHeads,
  max_position_embeddings: 32_768,
  ...rest,
});

/** The keys that count, as the models' files have them. */
const MODELS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "Llama-3.1-8B": gated("llama", [32, 4096, 32, 8], {
    intermediate_size: 14_336,
    vocab_size: 128_256,
    rope_theta: 500_000,
    rope_scaling: { factor: 8, rope_type: "llama3" },
  }),
  "Llama-3.2-1B": gated("llama", [16, 2048, 32, 8], {
    intermediate_size: 8192,
    vocab_size: 128_256,
    head_dim: 64,
    tie_word_embeddings: true,
  }),
  "Mistral-7B": gated("mistral", [32, 4096, 32, 8], {
    intermediate_size: 14_336,
    vocab_size: 32_000,
  }),
  "Mistral-Nemo": gated("mistral", [40, 5120, 32, 8], {
    intermediate_size: 14_336,
    vocab_size: 131_072,
    head_dim: 128,
  }),
  "Qwen2.5-7B": gated("qwen2", [28, 3584, 28, 4], {
    intermediate_size: 18_944,
    vocab_size: 152_064,
  }),
  "Qwen2.5-0.5B": gated("qwen2", [24, 896, 14, 2], {
    intermediate_size: 4864,
    vocab_size: 151_936,
    tie_word_embeddings: true,
  }),
  "Qwen1.5-MoE-A2.7B": gated("qwen2_moe", [24, 2048, 16, 16], {
    ...{ intermediate_size: 5632, vocab_size: 151_936, decoder_sparse_step: 1 },
    ...{ moe_intermediate_size: 1408, shared_expert_intermediate_size: 5632 },
    ...{ num_experts: 60, num_experts_per_tok: 4, mlp_only_layers: [] },
  }),
  "Gemma-2B": gated("gemma", [18, 2048, 8, 1], {
    ...{ intermediate_size: 16_384, vocab_size: 256_000, head_dim: 256 },
    ...{ hidden_act: "gelu", hidden_activation: null },
  }),
  "Gemma-7B": gated("gemma", [28, 3072, 16, 16], {
    ...{ intermediate_size: 24_576, vocab_size: 256_000 },
  }),
  "Gemma-2-2B": gated("gemma2", [26, 2304, 8, 4], {
    ...{ intermediate_size: 9216, vocab_size: 256_000, head_dim: 256, sliding_window: 4096 },
  }),
  "Phi-3-mini": gated("phi3", [32, 3072, 32, 32], {
    ...{ intermediate_size: 8192, vocab_size: 32_064, rope_scaling: null, sliding_window: 2047 },
  }),
  "Phi-2": {
    ...{ model_type: "phi", num_hidden_layers: 32, hidden_size: 2560, num_attention_heads: 32 },
    ...{ num_key_value_heads: 32, intermediate_size: 10_240, vocab_size: 51_200 },
    ...{ max_position_embeddings: 2048, partial_rotary_factor: 0.4, qk_layernorm: false },
    ...{ tie_word_embeddings: false, hidden_act: "gelu_new" },
  },
  "Phi-1.5": {
    ...{ model_type: "phi", num_hidden_layers: 24, hidden_size: 2048, num_attention_heads: 32 },
    ...{ num_key_value_heads: null, intermediate_size: 8192, vocab_size: 51_200 },
    ...{ max_position_embeddings: 2048, partial_rotary_factor: 0.5 },
  },
  "Qwen3-8B": gated("qwen3", [36, 4096, 32, 8], {
    intermediate_size: 12_288,
    vocab_size: 151_936,
    head_dim: 128,
  }),
  "Qwen3-30B-A3B": gated("qwen3_moe", [48, 2048, 32, 4], {
    ...{ intermediate_size: 6144, vocab_size: 151_936, head_dim: 128, decoder_sparse_step: 1 },
    ...{ moe_intermediate_size: 768, num_experts: 128, num_experts_per_tok: 8 },
  }),
  "Mixtral-8x7B": gated("mixtral", [32, 4096, 32, 8], {
    intermediate_size: 14_336,
    vocab_size: 32_000,
    num_local_experts: 8,
    num_experts_per_tok: 2,
  }),
  "DeepSeek-V3": gated("deepseek_v3", [61, 7168, 128, 128], {
    ...{
      intermediate_size: 18_432,
      vocab_size: 129_280,
      moe_intermediate_size: 2048,
      n_routed_experts: 256,
    },
    ...{ num_experts_per_tok: 8, n_shared_experts: 1, first_k_dense_replace: 3, q_lora_rank: 1536 },
    ...{ kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128 },
  }),
  "DeepSeek-V2-Lite": gated("deepseek_v2", [27, 2048, 16, 16], {
    ...{
      intermediate_size: 10_944,
      vocab_size: 102_400,
      moe_intermediate_size: 1408,
      n_routed_experts: 64,
    },
    ...{ num_experts_per_tok: 6, n_shared_experts: 2, first_k_dense_replace: 1, q_lora_rank: null },
    ...{ kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128 },
  }),
  "GPT-NeoX-20B": {
    model_type: "gpt_neox",
    num_hidden_layers: 44,
    hidden_size: 6144,
    num_attention_heads: 64,
    intermediate_size: 24_576,
    vocab_size: 50_432,
    max_position_embeddings: 2048,
    rotary_pct: 0.25,
  },
  "GPT-2": {
    model_type: "gpt2",
    n_layer: 12,
    n_embd: 768,
    n_head: 12,
    n_positions: 1024,
    n_inner: null,
    vocab_size: 50_257,
  },
  "OPT-6.7B": {
    model_type: "opt",
    num_hidden_layers: 32,
    hidden_size: 4096,
    num_attention_heads: 32,
    ffn_dim: 16_384,
    vocab_size: 50_272,
    max_position_embeddings: 2048,
    word_embed_proj_dim: 4096,
    activation_function: "relu",
  },
  "BERT-base": {
    model_type: "bert",
    num_hidden_layers: 12,
    hidden_size: 768,
    num_attention_heads: 12,
    intermediate_size: 3072,
    vocab_size: 30_522,
    max_position_embeddings: 512,
  },
  "ViT-base": {
    model_type: "vit",
    num_hidden_layers: 12,
    hidden_size: 768,
    num_attention_heads: 12,
    intermediate_size: 3072,
    image_size: 224,
    patch_size: 16,
    num_channels: 3,
  },
};

test.each([
  ["Llama-3.1-8B", 8_030_261_248],
  ["Llama-3.2-1B", 1_235_814_400],
  ["Mistral-7B", 7_241_732_096],
  ["Mistral-Nemo", 12_247_782_400],
  ["Qwen2.5-7B", 7_615_616_512],
  ["Qwen2.5-0.5B", 494_032_768],
  ["Qwen1.5-MoE-A2.7B", 14_315_784_192],
  ["Gemma-2B", 2_506_172_416],
  ["Gemma-7B", 8_537_680_896],
  ["Gemma-2-2B", 2_614_341_888],
  ["Phi-3-mini", 3_821_079_552],
  ["Phi-2", 2_779_683_840],
  ["Phi-1.5", 1_418_270_720],
  ["Qwen3-8B", 8_190_735_360],
  ["Qwen3-30B-A3B", 30_532_122_624],
  ["Mixtral-8x7B", 46_702_792_704],
  // Without the head that predicts a second token; with its buffer of expert biases 671,026,419,200.
  ["DeepSeek-V3", 671_026_404_352],
  ["DeepSeek-V2-Lite", 15_706_484_224],
  ["GPT-NeoX-20B", 20_554_567_680],
  ["GPT-2", 124_439_808],
  ["OPT-6.7B", 6_658_473_984],
  ["BERT-base", 109_482_240],
  // Without a classifier.
  ["ViT-base", 85_798_656],
])("%s has %i parameters", (name, want) => {
  expect(parameterCount(presetModel(name, shapeOf(MODELS[name] ?? {})))).toBe(want);
});

test("Phi and Gemma are what their classes build: rotations of a part of a head, a gate of GELU, an embedding that is the output layer", () => {
  expect(shapeOf(MODELS["Phi-2"] ?? {})).toMatchObject({
    ...{ positions: 0, rotaryShare: 0.4, biases: "all", activation: "gelu", isTied: false },
  });
  expect(shapeOf(MODELS["Gemma-7B"] ?? {})).toMatchObject({
    ...{ headSize: 256, activation: "geglu", norm: "rms", biases: "none", isTied: true },
  });
});

test("every type has an example here", () => {
  const types = new Set(Object.values(MODELS).map((config) => config["model_type"]));
  expect([...types].sort()).toEqual([...HF_MODEL_TYPES].sort());
});

test("a mixture of experts computes with the chosen ones alone", () => {
  const model = presetModel("mixtral", { ...shapeOf(MODELS["Mixtral-8x7B"] ?? {}), sequence: 128 });
  // 12.9 billion of its parameters are active (Jiang et al. 2024).
  expect(forwardFlops(model) / 2 / 128 / 12.75e9).toBeGreaterThan(0.98);
  expect(forwardFlops(model) / 2 / 128 / 12.75e9).toBeLessThan(1.02);
});

describe("the longest sequence is what engines derive from the positions", () => {
  it.each<[string, Readonly<Record<string, unknown>>, number | undefined]>([
    ["rotations as they are", {}, 32_768],
    ["a window of attention", { sliding_window: 4096 }, 32_768],
    ["nothing said", { max_position_embeddings: undefined }, undefined],
    ["llama3, stated after it", { rope_scaling: { factor: 8, rope_type: "llama3" } }, 32_768],
    ["linear", { rope_scaling: { factor: 4, type: "linear" } }, 131_072],
    [
      "yarn, of the positions before it",
      {
        max_position_embeddings: 163_840,
        rope_scaling: { factor: 40, type: "yarn", original_max_position_embeddings: 4096 },
      },
      163_840,
    ],
    [
      "yarn, not stated after it",
      { rope_scaling: { factor: 4, type: "yarn", original_max_position_embeddings: 32_768 } },
      131_072,
    ],
  ])("%s", (_, rest, want) => {
    expect(shapeOf({ ...MODELS["Mistral-7B"], ...rest }).maxTokens).toBe(want);
  });

  it("of a table of positions: its rows for text", () => {
    expect(shapeOf(MODELS["OPT-6.7B"] ?? {}).maxTokens).toBe(2048);
  });
});

describe("what is no such file is refused with the key and a remedy", () => {
  it.each([
    { config: { model_type: "t5" }, want: /model_type is "t5"/ },
    {
      config: { ...MODELS["GPT-2"], n_embd: "wide" },
      want: /n_embd is "wide"|hidden_size is missing/,
    },
    { config: { ...MODELS["GPT-2"], vocab_size: -1 }, want: /vocab_size is -1/ },
    { config: { ...MODELS["GPT-2"], n_head: 7 }, want: /768 is not divided by 7 heads/ },
    { config: { ...MODELS["Mistral-7B"], num_key_value_heads: 5 }, want: /5 key-value heads/ },
    {
      config: { ...MODELS["Mistral-7B"], num_hidden_layers: 1001 },
      want: /num_hidden_layers is 1001/,
    },
    { config: { ...MODELS["OPT-6.7B"], word_embed_proj_dim: 512 }, want: /word_embed_proj_dim/ },
    {
      config: { ...MODELS["Qwen1.5-MoE-A2.7B"], mlp_only_layers: [0] },
      want: /mlp_only_layers is \[0\]/,
    },
    { config: { ...MODELS["Phi-2"], qk_layernorm: true }, want: /qk_layernorm is true/ },
  ])("$want", ({ config, want }) => {
    const parsed = parseHfConfig(JSON.stringify(config), "config.json");
    expect(
      parsed.kind === "refused" ? parsed.problems.map(({ message }) => message).join() : "",
    ).toMatch(want);
  });

  it.each(["", "[]", "{", '{"model_type": "llama"'])("no object: %s", (text) => {
    expect(parseHfConfig(text, "config.json").kind).toBe("refused");
  });

  it("other JSON is left to other readers", () => {
    expect(isHfConfig('{"nodes": []}')).toBe(false);
  });
});
