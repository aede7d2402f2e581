/** @file What a request says of the model that its job trains, and how it is read again. */
import { describe, expect, test } from "vitest";
import { MAX_TRAINING_CHARS } from "../../../domain/job/training-text.ts";
import { parseTraining, trainedName } from "../../../domain/job/training-model.ts";
import { scheduledPart } from "../../../domain/lease/gang-request.ts";
import { SMALL_JOB, specOf } from "../job-text.ts";

const CONFIG = { model_type: "gpt2", n_layer: 12, n_embd: 768, n_head: 12, vocab_size: 50_257 };
const TRAINED = { ...SMALL_JOB, class: "training", gang: 16, model: "llama-3-8b", batch: 128 };

const textOf = (more: object): string | undefined =>
  scheduledPart(specOf({ ...TRAINED, ...more })).constraints.training;

describe("a job that trains", () => {
  test("a preset says its name, and the same model is read from it", () => {
    const text = textOf({ sequence: 4_096, framework: "fsdp2" }) ?? "";
    const { model, batch, framework } = parseTraining(text) ?? {};
    expect([model?.name, model?.shape.sequence, batch, framework]).toEqual([
      "llama-3-8b",
      4_096,
      128,
      "fsdp2",
    ]);
    expect(trainedName(text)).toBe("llama-3-8b");
  });

  test("it says its model's name as the job file does", () => {
    expect(trainedName(textOf({ model: "LLAMA 3 8B" }) ?? "")).toBe("LLAMA 3 8B");
  });

  test("a model of Hugging Face says its configuration", () => {
    const text = textOf({ model: "mine/config.json", modelConfig: CONFIG }) ?? "";
    expect(parseTraining(text)?.model.shape).toMatchObject({ layers: 12, hidden: 768 });
    // Its type is no name: models of all sizes have it.
    expect(trainedName(text)).toBeUndefined();
  });

  test.each([
    { what: "no batch", more: { batch: undefined } },
    { what: "no model", more: { model: undefined } },
    { what: "one GPU", more: { gang: 1 } },
    { what: "many tasks", more: { array: { count: 2, parallel: 2 } } },
    { what: "another class", more: { class: "interactive" } },
    {
      what: "a configuration of many words",
      more: { model: undefined, modelConfig: { ...CONFIG, note: "x".repeat(MAX_TRAINING_CHARS) } },
    },
  ])("with $what says nothing", ({ more }) => {
    expect(textOf(more)).toBeUndefined();
  });
});

test.each([
  "",
  "null",
  "[1]",
  '{"model":"no such model","batch":8}',
  '{"model":"llama-3-8b"}',
  '{"model":"llama-3-8b","batch":"8"}',
  '{"modelConfig":{"model_type":"gpt2"},"batch":8}',
])("the words %j say no model", (text) => {
  expect(parseTraining(text)).toBeUndefined();
});
