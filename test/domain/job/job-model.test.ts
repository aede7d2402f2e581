/** @file The model of a job file: its shape from a preset or a configuration, tokens of a sample, and what is refused. */

import { expect, it, test } from "vitest";
import { jobModel } from "../../../domain/job/job-model.ts";
import { parseJobFile } from "../../../domain/job/job-file.ts";

const GPT2 = { model_type: "gpt2", n_layer: 12, n_embd: 768, n_head: 12, vocab_size: 50_257 };

const parsed = (rest: Readonly<Record<string, unknown>>): ReturnType<typeof parseJobFile> =>
  parseJobFile({ name: "train", gang: 4, run: { command: ["x"] }, ...rest });

test.each([
  { rest: { model: "gpt2-1.3b" }, want: ["gpt2-1.3b", 24, 1024] },
  { rest: { model: "gpt2-1.3b", sequence: 256 }, want: ["gpt2-1.3b", 24, 256] },
  { rest: { modelConfig: GPT2 }, want: ["gpt2", 12, 1024] },
  { rest: { model: "m/config.json", modelConfig: GPT2 }, want: ["gpt2 (m)", 12, 1024] },
  { rest: { model: "/m/small", modelConfig: GPT2, sequence: 8 }, want: ["gpt2 (small)", 12, 8] },
  { rest: { model: "m/config.json" }, want: undefined },
])("the model of $rest is $want", ({ rest, want }) => {
  const job = parsed(rest);
  if (job.kind === "refused") throw new Error(JSON.stringify(job.problems));
  const model = jobModel(job.spec);
  const found = model && [model.name, model.shape.layers, model.shape.sequence];
  expect(found).toEqual(want);
});

const { n_head: _, ...HEADLESS } = GPT2;

test.each([
  { rest: { modelConfig: { ...GPT2, n_embd: "wide" } }, path: "modelConfig.n_embd" },
  { rest: { modelConfig: HEADLESS }, path: "modelConfig.num_attention_heads" },
  { rest: { modelConfig: { ...GPT2, model_type: "rwkv" } }, path: "modelConfig.model_type" },
  { rest: { modelConfig: {} }, path: "modelConfig.model_type" },
  { rest: { model: "gpt2-1.3b", modelConfig: GPT2 }, path: "modelConfig" },
  { rest: { modelConfig: GPT2, sequence: 4096 }, path: "sequence" },
  { rest: { model: "m/config.json", sequence: 4096 }, path: "sequence" },
  { rest: { sequence: 4096 }, path: "sequence" },
])("$rest is refused at $path", ({ rest, path }) => {
  const job = parsed(rest);
  expect(job.kind === "refused" && job.problems.map((problem) => problem.path)).toEqual([path]);
});

it("names the key that is missing", () => {
  const job = parsed({ modelConfig: HEADLESS });
  expect(job.kind === "refused" && job.problems[0]?.message).toContain(
    "num_attention_heads is missing",
  );
});
