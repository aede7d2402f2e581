/**
 * @file Reads a `config.json` of Hugging Face Transformers as the shape of a transformer.
 *
 * The key `model_type` says which keys hold width, depth and heads; what a file leaves out has the default of that class. All problems are
 * reported at once; JSON keeps no lines, so a message names the key. The longest sequence is
 * what engines derive from the positions; windows of attention do not shorten it. Sources: the configuration classes of Transformers 4.57;
 * `_get_and_verify_max_len` of vLLM.
 */

import { refuse, type Refused } from "../values/problem.ts";
import { refuseBySize } from "../values/text-lines.ts";
import { readerOf, shownValue, type KeyProblem, type Reader } from "./hf-keys.ts";
import type { ExpertShape, LatentShape, TransformerShape } from "./transformer-shape.ts";

/** A shape with its model type, and the part of the file that it follows from. */
interface ConfigShape {
  readonly name: string;
  readonly shape: TransformerShape;
  readonly used: Readonly<Record<string, unknown>>;
}

export type ParsedHfConfig = ({ readonly kind: "parsed" } & ConfigShape) | Refused;

/** Whether a text is such a file, whatever its model. */
export const isHfConfig = (text: string): boolean =>
  text.trimStart().startsWith("{") && /"model_type"\s*:/.test(text);

export const HF_MODEL_TYPES = [
  "llama",
  "qwen2",
  "qwen2_moe",
  "qwen3",
  "qwen3_moe",
  "mistral",
  "mixtral",
  "deepseek_v2",
  "deepseek_v3",
  "gemma",
  "gemma2",
  "phi3",
  "phi",
  "gpt_neox",
  "gpt2",
  "opt",
  "bert",
  "vit",
] as const;
type ModelType = (typeof HF_MODEL_TYPES)[number];

/** The deepest published models have a tenth of it; plans look at every block. */
const MOST_LAYERS = 1000;
/** Tokens of a sample where nobody says how many: models take more than anybody trains with at first. */
const USUAL_SEQUENCE = 4096;

export function parseHfConfig(text: string, file: string): ParsedHfConfig {
  const bySize = refuseBySize(text, file, { what: "a model's configuration" });
  if (bySize !== undefined) return bySize;
  const found = objectIn(text);
  if (found === undefined)
    return refuse(file, [
      { line: 1, message: "the text is no JSON object", remedy: "give the model's config.json" },
    ]);
  const read = readHfConfig(found);
  return read.kind === "wrong"
    ? refuse(
        file,
        read.problems.map(({ message, remedy }) => ({ line: 1, message, remedy })),
      )
    : { ...read, kind: "parsed" };
}

export type ReadHfConfig =
  | ({ readonly kind: "read" } & ConfigShape)
  | { readonly kind: "wrong"; readonly problems: readonly KeyProblem[] };

/** Of a file that was read as JSON, or that stands in a job file. */
export function readHfConfig(found: Readonly<Record<string, unknown>>): ReadHfConfig {
  const type = HF_MODEL_TYPES.find((known) => known === found["model_type"]);
  if (type === undefined) {
    const message = `model_type is ${shownValue(found["model_type"])}`;
    const remedy = `give a model of type ${HF_MODEL_TYPES.join(", ")}`;
    return { kind: "wrong", problems: [{ key: "model_type", message, remedy }] };
  }
  const problems: KeyProblem[] = [];
  const keys = new Set(["model_type", "head_dim"]);
  const shape = shapeOf(type, readerOf(found, { problems, keys }));
  if (problems.length === 0 && shape.hidden % shape.heads !== 0 && found["head_dim"] === undefined)
    problems.push({
      key: "hidden_size",
      message: `${shape.hidden} is not divided by ${shape.heads} heads`,
      remedy: "mend the width, the heads or head_dim",
    });
  if (problems.length === 0 && shape.heads % shape.keyValueHeads !== 0)
    problems.push({
      key: "num_key_value_heads",
      message: `${shape.heads} heads are not divided by ${shape.keyValueHeads} key-value heads`,
      remedy: "mend num_key_value_heads",
    });
  if (problems.length > 0) return { kind: "wrong", problems };
  const used = Object.fromEntries(Object.entries(found).filter(([key]) => keys.has(key)));
  return { kind: "read", name: type, shape, used };
}

function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === "object" && found !== null && !Array.isArray(found)
      ? Object.fromEntries(Object.entries(found))
      : undefined;
  } catch {
    return undefined;
  }
}

function shapeOf(type: ModelType, read: Reader): TransformerShape {
  switch (type) {
    case "gpt2":
    case "opt":
    case "bert":
    case "gpt_neox":
    case "phi":
      return classicShape(type, read);
    case "vit":
      return imageShape(read);
    case "llama":
    case "qwen2":
    case "qwen2_moe":
    case "qwen3":
    case "qwen3_moe":
    case "gemma":
    case "gemma2":
    case "phi3":
    case "mistral":
    case "mixtral":
    case "deepseek_v2":
    case "deepseek_v3":
      return gatedShape(type, read);
  }
}

type Common = Pick<TransformerShape, "family" | "layers" | "hidden" | "heads">;

/** At least 1: what divides must not be 0. */
const commonOf = (type: ModelType, read: Reader): Common => ({
  family: type,
  layers: Math.max(1, read.count("num_hidden_layers n_layer", undefined, MOST_LAYERS)),
  hidden: Math.max(1, read.count("hidden_size n_embd")),
  heads: Math.max(1, read.count("num_attention_heads n_head")),
});

/** LLaMA and its kind: gated, RMSNorm, rotations; experts and latent attention where the file has them. Gemma's heads have a size of their own. */
function gatedShape(type: ModelType, read: Reader): TransformerShape {
  const common = commonOf(type, read);
  const { hidden, heads } = common;
  const isDeepSeek = type === "deepseek_v2" || type === "deepseek_v3";
  const isGemma = type === "gemma" || type === "gemma2";
  const isQwen2 = type === "qwen2" || type === "qwen2_moe";
  const hasExperts = type === "mixtral" || /_moe$/.test(type) || isDeepSeek;
  const stated = read.count("max_position_embeddings", 0);
  const positions = stated === 0 ? USUAL_SEQUENCE : stated;
  const hasBias = read.claim("attention_bias", isQwen2);
  const ropeScaling = read.ropeScaling();
  const feedForward = read.count("intermediate_size");
  return {
    ...common,
    keyValueHeads: Math.max(1, read.count("num_key_value_heads", heads)),
    headSize: read.count("head_dim", isGemma ? 256 : hidden / heads),
    feedForward,
    vocabulary: read.count("vocab_size"),
    positions: 0,
    sequence: Math.min(positions, USUAL_SEQUENCE),
    ...(stated > 0 && { maxTokens: read.stretched(stated) }),
    activation: isGemma ? "geglu" : "swiglu",
    norm: "rms",
    normEpsilon: read.number("rms_norm_eps", 1e-6),
    biases: hasBias || isQwen2 ? "qkv" : "none",
    isTied: read.claim("tie_word_embeddings", isGemma),
    isEncoder: false,
    ropeBase: read.number("rope_theta", type === "mixtral" ? 1e6 : 10_000),
    ...(ropeScaling !== undefined && { ropeScaling }),
    ...(type === "phi3" && rotaryShareOf(read, 1)),
    ...(/^qwen3/.test(type) && { hasQueryNorms: true }),
    ...(type === "gemma2" && { blockNorms: 4 as const }),
    ...(hasExperts && { experts: expertsOf(type, read, feedForward) }),
    ...(isDeepSeek && { latent: latentOf(read) }),
  };
}

function expertsOf(type: ModelType, read: Reader, feedForward: number): ExpertShape {
  if (type === "mixtral")
    return {
      count: read.count("num_local_experts", 8),
      chosen: read.count("num_experts_per_tok", 2),
      feedForward,
      sharedFeedForward: 0,
      denseLayers: 0,
    };
  const width = read.count("moe_intermediate_size");
  if (type === "qwen2_moe" || type === "qwen3_moe") {
    if (read.count("decoder_sparse_step", 1) !== 1)
      read.refuse("decoder_sparse_step", "1: experts in every block");
    if (!read.isEmpty("mlp_only_layers"))
      read.refuse("mlp_only_layers", "none: experts in every block");
    return {
      count: read.count("num_experts num_local_experts"),
      chosen: read.count("num_experts_per_tok"),
      feedForward: width,
      ...(type === "qwen2_moe"
        ? { sharedFeedForward: read.count("shared_expert_intermediate_size"), hasSharedGate: true }
        : { sharedFeedForward: 0 }),
      denseLayers: 0,
    };
  }
  return {
    count: read.count("n_routed_experts"),
    chosen: read.count("num_experts_per_tok"),
    feedForward: width,
    sharedFeedForward: width * read.count("n_shared_experts", 0),
    denseLayers: read.count("first_k_dense_replace", 0),
  };
}

const latentOf = (read: Reader): LatentShape => ({
  // Null where queries are projected at once.
  queryRank: read.count("q_lora_rank", 0),
  keyValueRank: read.count("kv_lora_rank"),
  plainSize: read.count("qk_nope_head_dim"),
  rotarySize: read.count("qk_rope_head_dim"),
  valueSize: read.count("v_head_dim"),
});

/** The share of a head that is rotated, where it is not all. */
function rotaryShareOf(read: Reader, usual: number): Pick<TransformerShape, "rotaryShare"> {
  const rotaryShare = read.number("partial_rotary_factor", usual);
  return rotaryShare === 1 ? {} : { rotaryShare };
}

/** GPT-2, OPT, BERT, GPT-NeoX, Phi: two matrices, norms with shift, biases. */
function classicShape(type: ModelType, read: Reader): TransformerShape {
  const common = commonOf(type, read);
  const { hidden, heads } = common;
  const isNeoX = type === "gpt_neox";
  const isPhi = type === "phi";
  const isRotated = isNeoX || isPhi;
  const stated = read.count("max_position_embeddings n_positions", 0);
  const positions = stated === 0 ? 1024 : stated;
  if (read.count("word_embed_proj_dim", hidden) !== hidden)
    read.refuse("word_embed_proj_dim", "an embedding as wide as the model");
  const isRelu = /^relu/.test(
    read.word("activation_function", read.word("hidden_act", type === "opt" ? "relu" : "gelu")),
  );
  if (isPhi && read.claim("qk_layernorm", false))
    read.refuse("qk_layernorm", "false: no norms of queries and keys");
  return {
    ...common,
    keyValueHeads: isPhi ? Math.max(1, read.count("num_key_value_heads", heads)) : heads,
    headSize: hidden / heads,
    feedForward: read.count("intermediate_size ffn_dim n_inner", 4 * hidden),
    vocabulary: read.count("vocab_size"),
    // OPT's table of positions has two rows more than it has positions.
    positions: isRotated ? 0 : positions + (type === "opt" ? 2 : 0),
    sequence: positions,
    ...(stated > 0 && { maxTokens: isRotated ? read.stretched(stated) : stated }),
    activation: isRelu ? "relu" : "gelu",
    norm: "layer",
    normEpsilon: read.number(type === "gpt2" ? "layer_norm_epsilon" : "layer_norm_eps", 1e-5),
    biases: "all",
    isTied: read.claim("tie_word_embeddings", !isRotated),
    isEncoder: type === "bert",
    ...(isNeoX && {
      ropeBase: read.number("rotary_emb_base", 10_000),
      rotaryShare: read.number("rotary_pct", 0.25),
    }),
    ...(isPhi && {
      ropeBase: read.number("rope_theta", 10_000),
      ...rotaryShareOf(read, 0.5),
      blockNorms: 1 as const,
      hasHeadBias: true,
    }),
  };
}

function imageShape(read: Reader): TransformerShape {
  const common = commonOf("vit", read);
  const [imageSize, patchSize] = [
    read.count("image_size", 224),
    Math.max(1, read.count("patch_size", 16)),
  ];
  const patches = Math.floor(imageSize / patchSize) ** 2;
  return {
    ...common,
    keyValueHeads: common.heads,
    headSize: common.hidden / common.heads,
    feedForward: read.count("intermediate_size", 4 * common.hidden),
    vocabulary: 0,
    positions: patches + 1,
    sequence: patches + 1,
    activation: "gelu",
    norm: "layer",
    normEpsilon: read.number("layer_norm_eps", 1e-12),
    biases: "all",
    isTied: false,
    isEncoder: false,
    image: { imageSize, patchSize, channels: read.count("num_channels", 3) },
  };
}
