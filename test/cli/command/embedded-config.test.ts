/** @file Which files a job file's model takes into `modelConfig`. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it, test } from "vitest";
import { embeddedConfig } from "../../../cli/planning/embedded-config.ts";
import { jobFileWith } from "../../../cli/command/job-flags.ts";

const folder = mkdtempSync(join(tmpdir(), "embedded-config-"));
const SIZES = { model_type: "gpt2", n_layer: 12, n_embd: 768, n_head: 12, vocab_size: 50_257 };
mkdirSync(join(folder, "small"));
writeFileSync(
  join(folder, "small", "config.json"),
  JSON.stringify({ ...SIZES, id2label: { 0: "cat" }, torch_dtype: "float16" }),
);
writeFileSync(join(folder, "graph.json"), JSON.stringify({ nodes: [] }));
writeFileSync(join(folder, "broken.json"), JSON.stringify({ ...SIZES, n_head: undefined }));

afterAll(() => {
  rmSync(folder, { recursive: true });
});

const written = (model: string, more = ""): Parameters<typeof embeddedConfig>[0] => ({
  text: `name: a\ngang: 1\nrun: { command: x }\nmodel: ${model}\n${more}`,
  file: "job.yaml",
  folder,
});

test.each([
  { model: "small", want: SIZES },
  { model: "small/config.json", want: SIZES },
  { model: join(folder, "small"), want: SIZES },
  { model: "gpt2-1.3b", want: undefined },
  { model: "elsewhere/config.json", want: undefined },
  { model: "graph.json", want: undefined },
])("$model takes $want along", ({ model, want }) => {
  expect(embeddedConfig(written(model))).toEqual(want);
});

it("leaves a configuration that the job file has", () => {
  expect(embeddedConfig(written("small", "modelConfig: {}"))).toBeUndefined();
});

it("names what is missing", () => {
  expect(() => embeddedConfig(written("broken.json"))).toThrow(/num_attention_heads is missing/);
});

it("stands in the merged job file", () => {
  const { text, file } = written("small");
  const job = jobFileWith({ text, file }, { modelConfig: SIZES }, undefined);
  expect(job).toMatchObject({ model: "small", modelConfig: SIZES });
});
