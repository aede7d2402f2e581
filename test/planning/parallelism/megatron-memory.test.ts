/**
 * @file Plans beside what Megatron-LM publishes: memory of its weights, optimiser and activations, arguments that its parser takes, and the model
 * that they build. Written from its `theoretical_memory_usage.py` and `arguments.py`; nothing of the planner's memory is used.
 */

import { describe, expect, test } from "vitest";
import { publishedBytes, type MegatronFlags } from "../../../bench/plan/published-memory.ts";
import { readHfConfig } from "../../../domain/model/parse-hf-config.ts";
import type { PlanModel } from "../../../planning/parallelism/models.ts";
import { planDocument, type PlanDocument } from "../../../planning/parallelism/plan-document.ts";
import { planTraining, type TrainingPlan } from "../../../planning/parallelism/plan.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
import { layerSums } from "../../../planning/parallelism/split.ts";
import { stageMemory } from "../../../planning/parallelism/stage-memory.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import { randomFrom } from "../../../lib/random.ts";
import { host, preset, siteOf } from "./sites.ts";

const GIB = 2 ** 30;
const H100 = { gpuType: "H100", teraflops: 989, inside: { gbs: 337, latencyMs: 0.01 } };
const V100 = { gpuType: "V100-32", teraflops: 125, memoryGiB: 32 };

const SITES: ReadonlyMap<string, PlanSite> = new Map([
  ["8 A100", siteOf(host("a", 8))],
  ["4 V100", siteOf(host("a", 4, V100))],
  [
    "16 H100",
    {
      ...siteOf(host("a", 8, H100), host("b", 8, H100)),
      fabric: () => ({ gbs: 50, latencyMs: 0.02 }),
    },
  ],
  [
    "64 H100",
    {
      ...siteOf(...Array.from({ length: 8 }, (_, at) => host(`h${String(at)}`, 8, H100))),
      fabric: () => ({ gbs: 50, latencyMs: 0.02 }),
    },
  ],
  ["two sites", siteOf(host("a", 8, H100), host("b", 8, { ...H100, cluster: "b" }))],
  ["uneven", siteOf(host("a", 4), host("b", 2))],
]);

const CASES = [
  ["gpt2-350m", "8 A100", 64],
  ["gpt2-350m", "4 V100", 32],
  ["gpt2-350m", "uneven", 48],
  ["gpt2-1.3b", "8 A100", 64],
  ["gpt2-1.3b", "4 V100", 64],
  ["gpt2-1.3b", "16 H100", 256],
  ["gpt2-1.3b", "64 H100", 512],
  ["gpt2-1.3b", "two sites", 256],
  ["gpt2-1.3b", "uneven", 48],
  ["gpt2-4.2b", "8 A100", 64],
  ["gpt2-4.2b", "4 V100", 64],
  ["gpt2-4.2b", "16 H100", 128],
  ["gpt2-4.2b", "64 H100", 512],
  ["gpt2-4.2b", "two sites", 128],
  ["gpt2-4.2b", "uneven", 24],
  ["opt-6.7b", "8 A100", 64],
  ["opt-6.7b", "16 H100", 128],
  ["opt-6.7b", "64 H100", 512],
  ["opt-6.7b", "two sites", 64],
  ["opt-13b", "8 A100", 64],
  ["opt-13b", "16 H100", 128],
  ["opt-13b", "64 H100", 256],
  ["opt-13b", "two sites", 128],
  ["bert-110m", "8 A100", 256],
  ["bert-110m", "4 V100", 64],
  ["bert-340m", "16 H100", 512],
  ["bert-340m", "uneven", 96],
  ["llama-7b", "8 A100", 64],
  ["llama-7b", "16 H100", 128],
  ["llama-7b", "64 H100", 1024],
  ["llama-7b", "two sites", 128],
  ["llama-13b", "8 A100", 64],
  ["llama-13b", "16 H100", 128],
  ["llama-13b", "two sites", 256],
  ["llama-70b", "64 H100", 128],
  ["llama-70b", "64 H100", 1024],
] as const;

/** Flags of `arguments.py` with a value, and those without. */
const VALUED = new Set(
  "tensor-model-parallel-size pipeline-model-parallel-size num-layers-per-virtual-pipeline-stage micro-batch-size global-batch-size num-layers hidden-size num-attention-heads num-query-groups kv-channels ffn-hidden-size seq-length max-position-embeddings vocab-size img-h img-w patch-dim num-channels num-experts moe-router-topk moe-ffn-hidden-size moe-token-dispatcher-type expert-model-parallel-size normalization norm-epsilon position-embedding-type rotary-base hidden-dropout attention-dropout pipeline-model-parallel-layout recompute-granularity recompute-method recompute-num-layers".split(
    " ",
  ),
);
const PLAIN = new Set(
  "sequence-parallel group-query-attention swiglu disable-bias-linear add-qkv-bias untie-embeddings-and-output-weights use-distributed-optimizer fp16 bf16 accumulate-allreduce-grads-in-fp32 use-flash-attn moe-grouped-gemm".split(
    " ",
  ),
);

/** As argparse does: unknown flags and missing values are errors. */
function parsed(words: readonly string[]): MegatronFlags {
  const found: Record<string, string | true> = {};
  const left = [...words];
  for (let word = left.shift(); word !== undefined; word = left.shift()) {
    const flag = word.replace(/^--/, "");
    if (!word.startsWith("--")) throw new Error(`unrecognized arguments: ${word}`);
    if (PLAIN.has(flag)) found[flag] = true;
    else if (VALUED.has(flag)) found[flag] = left.shift() ?? "";
    else throw new Error(`unrecognized arguments: ${word}`);
  }
  return found;
}

async function planned(
  name: string,
  siteName: string,
  batch: number,
): Promise<readonly [TrainingPlan, PlanDocument, PlanSite]> {
  const site = SITES.get(siteName);
  if (site === undefined) throw new Error(siteName);
  const model = preset(name);
  const answer = await planTraining({ model, site, batch, random: randomFrom(1) });
  if (answer.kind === "blocked") throw new Error(answer.message);
  return [answer.plan, planDocument(answer.plan, site, model.shape), site];
}

describe.each(CASES)("%s on %s, batch %i", (name, siteName, batch) => {
  test("needs what Megatron-LM says of its arguments, up to 8 % more and never less, and fits", async () => {
    const [plan, document, site] = await planned(name, siteName, batch);
    const args = parsed(document.arguments.megatron.join(" ").split(" "));
    expect(document.arguments.megatron.join("")).not.toMatch(/["']/);
    for (const [stage, { memory, memoryGiB, cardGiB }] of plan.stages.entries()) {
      // The formulas have what is kept; memory-references.test.ts has the tensors of a moment.
      const own = memoryGiB - memory.reserveGiB - memory.workingGiB;
      const wanted = publishedBytes(args, stage, plan.split.replicas) / GIB;
      expect(own / wanted, `stage ${String(stage)}`).toBeGreaterThanOrEqual(1);
      expect(own / wanted, `stage ${String(stage)}`).toBeLessThanOrEqual(1.08);
      expect(memoryGiB).toBeLessThanOrEqual(cardGiB);
    }
    const isOld = site.hosts.some(({ gpuType }) => gpuType.startsWith("V100"));
    expect([args["bf16"], args["fp16"]]).toEqual(isOld ? [undefined, true] : [true, undefined]);
    expect(args["accumulate-allreduce-grads-in-fp32"]).toBe(isOld ? true : undefined);
  });
});

test("LLaMA's arguments build LLaMA: gated, RMSNorm, rotations, no biases, untied", async () => {
  const [, document] = await planned("llama-7b", "16 H100", 128);
  expect(parsed(document.arguments.megatron.join(" ").split(" "))).toMatchObject({
    swiglu: true,
    normalization: "RMSNorm",
    "position-embedding-type": "rope",
    "disable-bias-linear": true,
    "untie-embeddings-and-output-weights": true,
    "ffn-hidden-size": "11008",
    "vocab-size": "32000",
  });
});

test("the logits of a last stage are as wide as the vocabulary is filled up", () => {
  const model = preset("gpt2-350m");
  const { layers, shape } = model;
  if (shape === undefined) throw new Error("no transformer");
  const split = {
    ...{ replicas: 1, stages: 2, width: 8, microBatch: 4, microBatches: 2 },
    ...{ isRecomputing: false, isSharded: false, bounds: [0, layers.length - 1, layers.length] },
    cells: [0, 8].map((firstRank) => ({ host: 0, firstRank, width: 8 })),
  };
  const { activationsGiB } = stageMemory(split, 1, layerSums(model));
  // 50,257 rows become 51,200 of 8 × 128; input and logits in 32 bits, Korthikanti et al. 2022, §4.3.
  const wanted = (4 * shape.sequence * 4 * (shape.hidden + 51_200)) / 8;
  expect(activationsGiB * GIB).toBeCloseTo(wanted, 0);
});

function configured(config: Readonly<Record<string, unknown>>): PlanModel {
  const read = readHfConfig(config);
  if (read.kind === "wrong") throw new Error(JSON.stringify(read.problems));
  return presetModel(read.name, read.shape);
}

test("GPUs before Ampere get no product of experts in one kernel, which Megatron-LM refuses there", async () => {
  const model = configured({
    ...{ model_type: "mixtral", hidden_size: 1024, intermediate_size: 2048, vocab_size: 32_000 },
    ...{ num_hidden_layers: 4, num_attention_heads: 8, num_key_value_heads: 8 },
  });
  for (const [card, isThere] of [
    [V100, undefined],
    [H100, true],
  ] as const) {
    const site = siteOf(host("a", 4, card));
    const answer = await planTraining({ model, site, batch: 8, random: randomFrom(1) });
    if (answer.kind === "blocked") throw new Error(answer.message);
    const { megatron } = planDocument(answer.plan, site, model.shape).arguments;
    expect(parsed(megatron.join(" ").split(" "))["moe-grouped-gemm"]).toBe(isThere);
  }
});

test("an image model's arguments say how many patches a sequence has", async () => {
  const model = configured({
    ...{ model_type: "vit", hidden_size: 1024, intermediate_size: 4096 },
    ...{ num_hidden_layers: 24, num_attention_heads: 16, image_size: 224, patch_size: 16 },
  });
  const site = siteOf(host("a", 8));
  const answer = await planTraining({ model, site, batch: 64, random: randomFrom(1) });
  if (answer.kind === "blocked") throw new Error(answer.message);
  const { megatron } = planDocument(answer.plan, site, model.shape).arguments;
  expect(parsed(megatron.join(" ").split(" "))).toMatchObject({
    ...{ "seq-length": "197", "max-position-embeddings": "197" },
    ...{ "img-h": "224", "patch-dim": "16" },
  });
});

test("what no argument can say is a note", async () => {
  const [, document] = await planned("opt-6.7b", "8 A100", 64);
  expect(document.notes.join(" ")).toMatch(/ReLU/);
});
