/**
 * @file Plans beside what Megatron-LM publishes: memory of its weights, optimiser and activations, arguments that its parser takes, and the model
 * that they build. Written from its `theoretical_memory_usage.py` and `arguments.py`; nothing of the planner's memory is used.
 */

import { describe, expect, test } from "vitest";
import { planDocument, type PlanDocument } from "../../../planning/parallelism/plan-document.ts";
import { planTraining, type TrainingPlan } from "../../../planning/parallelism/plan.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
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

interface Parsed {
  readonly [flag: string]: string | true;
}

/** Flags of `arguments.py` with a value, and those without. */
const VALUED = new Set(
  "tensor-model-parallel-size pipeline-model-parallel-size micro-batch-size global-batch-size num-layers hidden-size num-attention-heads num-query-groups kv-channels ffn-hidden-size seq-length max-position-embeddings vocab-size normalization norm-epsilon position-embedding-type rotary-base hidden-dropout attention-dropout pipeline-model-parallel-layout recompute-granularity recompute-method recompute-num-layers".split(
    " ",
  ),
);
const PLAIN = new Set(
  "sequence-parallel group-query-attention swiglu disable-bias-linear add-qkv-bias untie-embeddings-and-output-weights use-distributed-optimizer fp16 bf16 accumulate-allreduce-grads-in-fp32 use-flash-attn".split(
    " ",
  ),
);

/** As argparse does: unknown flags and missing values are errors. */
function parsed(words: readonly string[]): Parsed {
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

/** Blocks by stage, as `PipelineParallelLayerLayout` reads the text. */
function blocksOf(args: Parsed, stages: number): readonly number[] {
  const layout = args["pipeline-model-parallel-layout"];
  const layers = Number(args["num-layers"]);
  if (typeof layout !== "string") {
    expect(layers % stages).toBe(0);
    return Array.from({ length: stages }, () => layers / stages);
  }
  expect(layout).toMatch(/^E(?:(?:t(?:\*\d+)?)*\|)*(?:t(?:\*\d+)?)*L$/);
  const blocks = layout
    .slice(1, -1)
    .split("|")
    .map((part) =>
      [...part.matchAll(/t(?:\*(\d+))?/g)].reduce((sum, [, count]) => sum + Number(count ?? 1), 0),
    );
  expect(blocks).toHaveLength(stages);
  return blocks;
}

/** Bytes of a stage's GPU: 18 a parameter or 6 + 12/d, and table 2 of Korthikanti et al., from the arguments alone. */
function publishedBytes(args: Parsed, stage: number, replicas: number): number {
  const value = (flag: string): number => Number(args[flag]);
  const [h, a, f, s] = [
    value("hidden-size"),
    value("num-attention-heads"),
    value("ffn-hidden-size"),
    value("seq-length"),
  ];
  const [t, p, b] = [
    value("tensor-model-parallel-size"),
    value("pipeline-model-parallel-size"),
    value("micro-batch-size"),
  ];
  const groups = args["group-query-attention"] === true ? value("num-query-groups") : a;
  const gated = args["swiglu"] === true ? 1.5 : 1;
  const norm = args["normalization"] === "RMSNorm" ? 1 : 2;
  const block = 2 * h * (f * gated + norm) + 2 * h * h * (1 + groups / a);
  const padded = Math.ceil(value("vocab-size") / (128 * t)) * 128 * t;
  const blocks = blocksOf(args, p)[stage] ?? 0;
  const isUntied = args["untie-embeddings-and-output-weights"] === true;
  const [isFirst, isLast] = [stage === 0, stage === p - 1];
  const embeddings = Number(isFirst) + Number(isLast && (isUntied || p > 1));
  const parameters = (blocks * block + embeddings * h * padded + (isLast ? norm * h : 0)) / t;
  const bytes = args["use-distributed-optimizer"] === true ? 6 + 12 / replicas : 18;
  const microBatches = value("global-batch-size") / replicas / b;
  const inFlight = Math.min(microBatches, p - stage);
  const scores =
    args["use-flash-attn"] === true || args["recompute-granularity"] === "selective"
      ? 0
      : 5 * a * s * s * b;
  // Table 2 of the paper says 34, the script 18 + 4f/h: the larger.
  const layer = s * b * h * Math.max(34, 18 + (4 * f) / h);
  const logits = isLast ? 4 * s * b * (h + padded) : 0;
  const kept =
    args["recompute-granularity"] === "full"
      ? inFlight * blocks * 2 * s * b * h + Math.max(layer + scores, logits)
      : inFlight * blocks * (layer + scores);
  const ends =
    (isFirst ? inFlight * (8 * s * b + s * b * h) : 0) +
    (p === 1 && args["recompute-granularity"] !== "full" ? logits : 0);
  expect(t === 1 || args["sequence-parallel"] === true).toBe(true);
  return parameters * bytes + (kept + ends) / t;
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
      const own = memoryGiB - memory.reserveGiB;
      const wanted = publishedBytes(args, stage, plan.split.replicas) / GIB;
      expect(own / wanted, `stage ${String(stage)}`).toBeGreaterThanOrEqual(1);
      // The formula leaves out the logits of a last stage among several.
      if (stage === 0) expect(own / wanted, `stage ${String(stage)}`).toBeLessThanOrEqual(1.08);
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

test("what no argument can say is a note", async () => {
  const [, document] = await planned("opt-6.7b", "8 A100", 64);
  expect(document.notes.join(" ")).toMatch(/ReLU/);
});
