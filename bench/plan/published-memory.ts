/**
 * @file Bytes of a stage's GPU by Megatron-LM's published formulas, from the arguments alone; nothing of the planner's memory is used.
 *
 * Interleaved, the first stage keeps 1 + (p − 1)/(p v) times the layers of p of its micro-batches (Korthikanti et al. 2022, §4.2.3; the script's
 * `interleaved_schedule_memory_penalty`), later ones two runs less each. Weights, gradients and optimiser: `theoretical_memory_usage.py`, 18 a parameter or 6 + 12/d; of experts that e replicas share out 6 + 12 e/d of each
 * 1/e. A learned table of positions is whole on each GPU of the first stage. Logits of one micro-batch are kept in the last stage. Activations: table 2 of Korthikanti et al. 2022 or the script's 18 + 4 f/h, the larger. Neither covers latent attention and experts, so blocks
 * with them count the 16-bit inputs of each product, of fused attention and of norms, as the paper counts its own. Where
 * the arguments say that nothing drops out, the embedding's mask, the script's `s b h`, is not there.
 */

export interface MegatronFlags {
  readonly [flag: string]: string | true;
}

/** The flags of a printed argument list, each with its value where it has one. */
export function megatronFlags(lines: readonly string[]): MegatronFlags {
  return Object.fromEntries(
    lines.map((line) => {
      const [flag = "", value] = line.split(" ");
      return [flag.replace(/^--/, ""), value ?? true];
    }),
  );
}

/** What a flag says as a number; 0 of one that is not there. */
const numbersOf =
  (flags: MegatronFlags) =>
  (flag: string): number =>
    Number(flags[flag] ?? 0);

/** Blocks by stage, as `PipelineParallelLayerLayout` reads the text. */
export function blocksOf(flags: MegatronFlags): readonly number[] {
  const layout = flags["pipeline-model-parallel-layout"];
  const layers = Number(flags["num-layers"]);
  const stages = Number(flags["pipeline-model-parallel-size"]);
  if (typeof layout !== "string") {
    if (layers % stages !== 0) throw new Error(`${layers} blocks, ${stages} stages, no layout`);
    return Array.from({ length: stages }, () => layers / stages);
  }
  if (!/^E(?:(?:t(?:\*\d+)?)*\|)*(?:t(?:\*\d+)?)*L$/.test(layout))
    throw new Error(`the layout ${layout} is none`);
  const blocks = layout
    .slice(1, -1)
    .split("|")
    .map((part) =>
      [...part.matchAll(/t(?:\*(\d+))?/g)].reduce((sum, [, count]) => sum + Number(count ?? 1), 0),
    );
  if (blocks.length !== stages) throw new Error(`${layout} has not ${stages} stages`);
  return blocks;
}

/** What one block has, and what a sample leaves in it where nothing is computed again. */
interface Block {
  readonly parameters: number;
  /** Those that replicas may share out. */
  readonly expertParameters: number;
  readonly activationBytes: number;
}

/** `replicas`: of data parallelism alone; where sequences are shared out, each GPU has its part of the tokens. */
export function publishedBytes(flags: MegatronFlags, stage: number, replicas: number): number {
  const value = numbersOf(flags);
  const contexts = Number(flags["context-parallel-size"] ?? 1);
  const [h, b] = [value("hidden-size"), value("micro-batch-size")];
  const s = value("seq-length") / contexts;
  const [t, p] = [value("tensor-model-parallel-size"), value("pipeline-model-parallel-size")];
  const degree = Number(flags["expert-model-parallel-size"] ?? 1);
  if (t > 1 && flags["sequence-parallel"] !== true) throw new Error("tokens are not split");
  const each = value("num-layers-per-virtual-pipeline-stage");
  const runs = each === 0 ? 1 : value("num-layers") / p / each;
  if (!Number.isInteger(runs)) throw new Error("blocks are no multiple of virtual stages");
  const counts = blocksOf(flags);
  const first = counts.slice(0, stage).reduce((sum, count) => sum + count, 0);
  const size = (counts[stage] ?? 0) / runs;
  const blocks = Array.from({ length: counts[stage] ?? 0 }, (_, at) =>
    blockAt(
      flags,
      runs === 1 ? first + at : (Math.floor(at / size) * p + stage) * size + (at % size),
    ),
  );
  const sum = (of: (block: Block) => number): number =>
    blocks.reduce((total, block) => total + of(block), 0);
  const padded = Math.ceil(value("vocab-size") / (128 * t)) * 128 * t;
  const isUntied = flags["untie-embeddings-and-output-weights"] === true;
  const [isFirst, isLast] = [stage === 0, stage === p - 1];
  const embeddings = Number(isFirst) + Number(isLast && (isUntied || p > 1));
  const parameters =
    (sum(({ parameters: own }) => own) +
      embeddings * h * padded +
      (isLast ? normOf(flags) * h : 0)) /
      t +
    (isFirst && flags["position-embedding-type"] === undefined
      ? h * value("max-position-embeddings")
      : 0);
  const experts = sum(({ expertParameters }) => expertParameters) / degree / t;
  // All that sum gradients share out the optimiser's state.
  const sharing = replicas * contexts;
  const isSharded = flags["use-distributed-optimizer"] === true;
  const state = isSharded
    ? parameters * (6 + 12 / sharing) + experts * (6 + (12 * degree) / sharing)
    : 18 * (parameters + experts);
  const isWhole = flags["recompute-granularity"] === "full";
  const microBatches = value("global-batch-size") / replicas / b;
  if (runs > 1 && microBatches % p !== 0) throw new Error("micro-batches come in no whole groups");
  const inFlight = Math.min(
    microBatches,
    runs === 1 ? p - stage : p * (1 + (p - 1) / (p * runs)) - (2 * stage) / runs,
  );
  const logits = isLast ? 4 * s * b * (h + padded) : 0;
  const kept = isWhole
    ? inFlight * blocks.length * 2 * s * b * h +
      Math.max(0, ...blocks.map(({ activationBytes }) => activationBytes * b), logits)
    : inFlight * b * sum(({ activationBytes }) => activationBytes);
  const mask = flags["hidden-dropout"] === "0" ? 0 : s * b * h;
  const ends = (isFirst ? inFlight * (8 * s * b + mask) : 0) + (isWhole ? 0 : logits);
  return state + (kept + ends) / t;
}

const normOf = (flags: MegatronFlags): number => (flags["normalization"] === "RMSNorm" ? 1 : 2);

function blockAt(flags: MegatronFlags, at: number): Block {
  const value = numbersOf(flags);
  const [h, a] = [value("hidden-size"), value("num-attention-heads")];
  const s = value("seq-length") / Number(flags["context-parallel-size"] ?? 1);
  const f = value("ffn-hidden-size");
  const gated = flags["swiglu"] === true ? 1.5 : 1;
  const isLatent = flags["multi-latent-attention"] === true;
  const hasExperts = at >= denseBlocks(flags);
  const groups = flags["group-query-attention"] === true ? value("num-query-groups") : a;
  const attention = isLatent ? latentParameters(flags) : 2 * h * h * (1 + groups / a);
  if (!isLatent && !hasExperts) {
    const hasScores =
      flags["use-flash-attn"] !== true && flags["recompute-granularity"] !== "selective";
    return {
      parameters: 2 * h * (f * gated + normOf(flags)) + attention,
      expertParameters: 0,
      activationBytes: s * h * Math.max(34, 18 + (4 * f) / h) + (hasScores ? 5 * a * s * s : 0),
    };
  }
  const [own, shared] = [
    value("moe-ffn-hidden-size"),
    value("moe-shared-expert-intermediate-size"),
  ];
  const [count, chosen] = [value("num-experts"), value("moe-router-topk")];
  const always = hasExperts ? shared : f;
  const values = isLatent ? latentValues(flags) : h + 2 * h * (1 + groups / a);
  // Of a product with a gate: its input, both halves and what they make.
  const fed = h + 3 * always + (hasExperts ? chosen * (h + 3 * own) : 0);
  return {
    parameters: attention + 2 * h * (gated * always + normOf(flags)) + (hasExperts ? count * h : 0),
    expertParameters: hasExperts ? 2 * h * gated * count * own : 0,
    activationBytes: 2 * s * (2 * h + values + fed),
  };
}

/** Blocks before the first with experts; all, where there are none. */
function denseBlocks(flags: MegatronFlags): number {
  if (flags["num-experts"] === undefined) return Infinity;
  const frequency = flags["moe-layer-freq"];
  return typeof frequency === "string"
    ? Number(/^\(\[0\]\*(\d+)\+\[1\]\*\d+\)$/.exec(frequency)?.[1])
    : 0;
}

type Latent = Readonly<
  Record<"h" | "a" | "queryRank" | "rank" | "plain" | "rotary" | "valueSize", number>
>;

const latentOf = (flags: MegatronFlags): Latent => {
  const value = numbersOf(flags);
  return {
    h: value("hidden-size"),
    a: value("num-attention-heads"),
    queryRank: value("q-lora-rank"),
    rank: value("kv-lora-rank"),
    plain: value("qk-head-dim"),
    rotary: value("qk-pos-emb-head-dim"),
    valueSize: value("v-head-dim"),
  };
};

/** DeepSeek-V2, §2.1: queries and key-values by way of their latents, rotations beside them, and the way back. */
function latentParameters(flags: MegatronFlags): number {
  const { h, a, queryRank, rank, plain, rotary, valueSize } = latentOf(flags);
  const queries =
    queryRank > 0 ? queryRank * (h + 1 + a * (plain + rotary)) : h * a * (plain + rotary);
  return queries + h * (rank + rotary) + rank * (1 + a * (plain + valueSize)) + a * valueSize * h;
}

/** Values of a token: the products' common input, both latents before and after their norms, queries, keys and values, and what attention makes of them. */
function latentValues(flags: MegatronFlags): number {
  const { h, a, queryRank, rank, plain, rotary, valueSize } = latentOf(flags);
  return h + 2 * (queryRank + rank) + 2 * a * (plain + rotary) + 2 * a * valueSize;
}
