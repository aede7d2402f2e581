/** @file Which files a job file's model takes along: into `modelConfig` or `modelProfile`. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, expect, it, test } from "vitest";
import { packProfile } from "../../../activities/launch-extras/packed-profile.ts";
import { embeddedModel } from "../../../cli/planning/embedded-model.ts";
import { jobFileWith } from "../../../cli/command/job-flags.ts";

const folder = mkdtempSync(join(tmpdir(), "embedded-model-"));
const SIZES = { model_type: "gpt2", n_layer: 12, n_embd: 768, n_head: 12, vocab_size: 50_257 };
mkdirSync(join(folder, "small"));
writeFileSync(
  join(folder, "small", "config.json"),
  JSON.stringify({ ...SIZES, id2label: { 0: "cat" }, torch_dtype: "float16" }),
);
writeFileSync(join(folder, "graph.json"), JSON.stringify({ nodes: [] }));
writeFileSync(join(folder, "notes.txt"), "a -- b\n");
const GNMT = readFileSync("data/model-graphs/pipedream/gnmt.txt", "utf8");
const PACKED_BERT = readFileSync("data/model-graphs/msr/layers_bert24_training.json.gz");
const BERT = gunzipSync(PACKED_BERT).toString();
writeFileSync(join(folder, "gnmt.txt"), GNMT);
writeFileSync(join(folder, "bert.json.gz"), PACKED_BERT);
writeFileSync(join(folder, "wrong.txt"), GNMT.replace("backward_compute_time=", "backward="));
writeFileSync(join(folder, "broken.json"), JSON.stringify({ ...SIZES, n_head: undefined }));

afterAll(() => {
  rmSync(folder, { recursive: true });
});

const written = (model: string, more = ""): Parameters<typeof embeddedModel>[0] => ({
  text: `name: a\ngang: 1\nrun: { command: x }\nmodel: ${model}\n${more}`,
  file: "job.yaml",
  folder,
});

test.each([
  { model: "small", want: { modelConfig: SIZES } },
  { model: "small/config.json", want: { modelConfig: SIZES } },
  { model: join(folder, "small"), want: { modelConfig: SIZES } },
  { model: "gpt2-1.3b", want: {} },
  { model: "elsewhere/config.json", want: {} },
  { model: "graph.json", want: {} },
  { model: "notes.txt", want: {} },
  { model: "gnmt.txt", want: { modelProfile: packProfile(GNMT) } },
  { model: "bert.json.gz", want: { modelProfile: packProfile(BERT) } },
])("$model takes $want along", ({ model, want }) => {
  expect(embeddedModel(written(model))).toEqual(want);
});

it("leaves a configuration that the job file has", () => {
  expect(embeddedModel(written("small", "modelConfig: {}"))).toEqual({});
});

it("names what is missing", () => {
  expect(() => embeddedModel(written("broken.json"))).toThrow(/num_attention_heads is missing/);
});

it("names what is wrong in a profile", () => {
  expect(() => embeddedModel(written("wrong.txt"))).toThrow(/wrong\.txt/);
});

it("leaves the profile of a job that trains nothing", () => {
  expect(embeddedModel(written("gnmt.txt", "class: inference"))).toEqual({});
});

it("stands in the merged job file", () => {
  const { text, file } = written("small");
  const job = jobFileWith({ text, file }, { modelConfig: SIZES }, undefined);
  expect(job).toMatchObject({ model: "small", modelConfig: SIZES });
});
