/** @file Large models over four sites: on fewer GPUs, and the published memory of a mixture with latent attention. */

import { expect, test } from "vitest";
import { LARGE_MODELS, planOverSites } from "../../../bench/plan/four-sites.ts";
import { parseHfConfig } from "../../../domain/model/parse-hf-config.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import { blocksOf, megatronFlags, publishedBytes } from "../../../bench/plan/published-memory.ts";

test("a plan over four small sites keeps its memory and its links", async () => {
  const [{ config } = { config: {} }] = LARGE_MODELS;
  const small = {
    name: "small",
    sequence: 2048,
    config: {
      ...config,
      hidden_size: 4096,
      intermediate_size: 14_336,
      num_hidden_layers: 16,
      num_attention_heads: 32,
    },
  };
  const plan = await planOverSites(small, { hosts: 1, batch: 64, hasTopology: true });
  expect(plan).toMatchObject({ model: "small", tooLarge: 0, below: 0, cardGiB: 80 });
  expect(plan.publishedGiB).toBeGreaterThan(1);
  expect(plan.busiest).toBeGreaterThan(0);
  expect(plan.busiest).toBeLessThanOrEqual(1);
  expect(plan.ratio).toBeGreaterThanOrEqual(1 - 1e-9);
});

/** Arguments of DeepSeek-V3, all of it in one stage, whose states alone are counted: nothing but 671 billion parameters. */
const V3 = [
  "--tensor-model-parallel-size 1",
  "--pipeline-model-parallel-size 1",
  "--micro-batch-size 1",
  "--global-batch-size 1",
  "--num-layers 61",
  "--hidden-size 7168",
  "--num-attention-heads 128",
  "--ffn-hidden-size 18432",
  "--seq-length 0",
  "--vocab-size 129280",
  "--swiglu",
  "--normalization RMSNorm",
  "--num-experts 256",
  "--moe-router-topk 8",
  "--moe-ffn-hidden-size 2048",
  "--moe-shared-expert-intermediate-size 2048",
  "--moe-layer-freq ([0]*3+[1]*58)",
  "--multi-latent-attention",
  "--q-lora-rank 1536",
  "--kv-lora-rank 512",
  "--qk-head-dim 128",
  "--qk-pos-emb-head-dim 64",
  "--v-head-dim 128",
  "--untie-embeddings-and-output-weights",
];

test("the formula counts the published 671 billion parameters of DeepSeek-V3, 18 bytes each", () => {
  expect(publishedBytes(megatronFlags(V3), 0, 1) / 18 / 671e9).toBeCloseTo(1, 3);
});

test("experts that replicas share out are a part of each, and so is what the optimiser keeps of them", () => {
  const shared = [...V3, "--expert-model-parallel-size 64", "--use-distributed-optimizer"];
  const experts = 58 * 256 * 3 * 7168 * 2048;
  const rest = 671.0264e9 - experts;
  const wanted = (experts / 64) * (6 + (12 * 64) / 128) + rest * (6 + 12 / 128);
  expect(publishedBytes(megatronFlags(shared), 0, 128) / wanted).toBeCloseTo(1, 3);
});

test("a layout with other stages than were said is refused", () => {
  const flags = megatronFlags([
    "--num-layers 4",
    "--pipeline-model-parallel-size 3",
    "--pipeline-model-parallel-layout Et*2|t*2L",
  ]);
  expect(() => blocksOf(flags)).toThrow(/3 stages/);
});

test("latent attention keeps queries, keys and values wider than the model", () => {
  const deepSeek = LARGE_MODELS[1];
  const parsed = parseHfConfig(JSON.stringify(deepSeek?.config), "config.json");
  if (parsed.kind === "refused") throw new Error("refused");
  const block = presetModel("v3", { ...parsed.shape, sequence: 1 }).layers[10];
  // 128 heads of 192, 192, 128 and 128, two latents of 1536 + 512, five of width 7168 and eight more of copies; 9 × 3 × 2048 in experts.
  const values = 128 * 640 + 2 * 2048 + (4 + 8) * 7168 + 27 * 2048;
  expect(block?.activationBytes).toBe(2 * values);
});
