/** @file Jobs whose command is an engine for language models: what is read of their files, and what is refused. */

import { describe, expect, it, test } from "vitest";
import { serviceGoal } from "../../../domain/job/job-engine.ts";
import { parseJobYaml } from "../../../domain/job/job-file.ts";
import { isPlannedVariable } from "../../../domain/model/engine-names.ts";
import { modelPreset } from "../../../domain/model/model-presets.ts";
import { extrasOf } from "../../../domain/lease/launch-extras.ts";

const COMMAND = "run: { command: vllm serve /models/llama $ORBWEAVER_ENGINE_ARGS }";
const SERVE = "serve: { engine: vllm, ttft: 500ms, tpot: 40ms }";

const jobOf = (...lines: readonly string[]): ReturnType<typeof parseJobYaml> =>
  parseJobYaml(["name: chat", "gang: 8", ...lines].join("\n"), { file: "job.yaml" });

const INFERENCE = ["class: inference", "model: llama-3-8b"] as const;

describe("an inference job with serve.engine", () => {
  it("runs once on one host, and gets its arguments before each start", () => {
    const job = jobOf(...INFERENCE, SERVE, COMMAND);
    if (job.kind === "refused") throw new Error(JSON.stringify(job.problems));
    const { spec } = job;
    expect(spec).toMatchObject({
      engine: { engine: "vllm", ttftMs: 500, tpotMs: 40, promptTokens: 1024, outputTokens: 256 },
      constraints: { isSameHost: true },
      run: { launch: "per-host" },
    });
    expect(spec.isServed).toBeUndefined();
    expect(extrasOf(spec)).toEqual(["engine"]);
  });

  it("may be a shell's list, or a program that reads the variable itself", () => {
    for (const command of ['[bash, -c, "vllm serve /m $ORBWEAVER_ENGINE_ARGS"]', "[./serve.py]"])
      expect(jobOf(...INFERENCE, SERVE, `run: { command: ${command} }`).kind).toBe("parsed");
  });

  it("has the longest request that it says, else that of the model's shape", () => {
    const shape = modelPreset("llama-3-8b")?.[1];
    if (shape === undefined) throw new Error("no such preset");
    const rule = { ttftMs: 500, tpotMs: 40, promptTokens: 1024, outputTokens: 256 };
    expect(serviceGoal(rule, shape).contextTokens).toBe(8192);
    expect(serviceGoal({ ...rule, promptTokens: 20_000 }, shape).contextTokens).toBe(20_256);
    expect(serviceGoal({ ...rule, contextTokens: 2000 }, shape).contextTokens).toBe(2000);
  });
});

test.each([
  {
    what: "another class",
    lines: ["model: llama-3-8b", SERVE, COMMAND],
    want: { path: "class", text: /inference/ },
  },
  {
    what: "no time per token",
    lines: [...INFERENCE, "serve: { engine: sglang, ttft: 1s }", COMMAND],
    want: { path: "serve.tpot", text: /missing/ },
  },
  {
    what: "a command that does not read the arguments",
    lines: [...INFERENCE, SERVE, "run: { command: vllm serve /models/llama }"],
    want: { path: "run.command", text: /ORBWEAVER_ENGINE_ARGS/ },
  },
  {
    what: "a list that no shell reads",
    lines: [...INFERENCE, SERVE, 'run: { command: [vllm, serve, "$ORBWEAVER_ENGINE_ARGS"] }'],
    want: { path: "run.command", text: /without a shell/ },
  },
  {
    what: "no command",
    lines: [...INFERENCE, SERVE],
    want: { path: "run", text: /missing/ },
  },
  {
    what: "a model without a shape",
    lines: ["class: inference", "model: /models/llama", SERVE, COMMAND],
    want: { path: "model", text: /shape/ },
  },
  {
    what: "an .onnx model, which Orbweaver serves itself",
    lines: ["class: inference", "model: /m.onnx", SERVE, COMMAND],
    want: { path: "model", text: /shape/ },
  },
  {
    what: "an encoder",
    lines: ["class: inference", "model: bert-340m", SERVE, COMMAND],
    want: { path: "model", text: /no text/ },
  },
  {
    what: "keys of .onnx models",
    lines: [...INFERENCE, "serve: { engine: vllm, ttft: 1s, tpot: 1s, maxBatch: 4 }", COMMAND],
    want: { path: "serve.maxBatch", text: /onnx/ },
  },
  {
    what: "times without an engine",
    lines: ["class: inference", "model: /m.onnx", "serve: { ttft: 1s }"],
    want: { path: "serve.ttft", text: /serve\.engine/ },
  },
  {
    what: "a process for each GPU",
    lines: [...INFERENCE, SERVE, "run: { command: vllm $ORBWEAVER_ENGINE_ARGS, launch: per-gpu }"],
    want: { path: "run.launch", text: /one process/ },
  },
  {
    what: "several hosts",
    lines: [...INFERENCE, SERVE, COMMAND, "constraints: { sameHost: false }"],
    want: { path: "constraints.sameHost", text: /one host/ },
  },
  {
    what: "a longest request beyond the model's positions",
    lines: [...INFERENCE, "serve: { engine: vllm, ttft: 1s, tpot: 1s, context: 8193 }", COMMAND],
    want: { path: "serve.context", text: /takes 8192 tokens.*8193 let it have at most 8192/ },
  },
  {
    what: "a usual request beyond them",
    lines: [...INFERENCE, "serve: { engine: vllm, ttft: 1s, tpot: 1s, prompt: 8000 }", COMMAND],
    want: { path: "serve.prompt", text: /takes 8192 tokens.*8256/ },
  },
  {
    what: "a usual request beyond the longest",
    lines: [...INFERENCE, "serve: { engine: vllm, ttft: 1s, tpot: 1s, context: 1000 }", COMMAND],
    want: { path: "serve.context", text: /1024 \+ 256 tokens, the longest 1000/ },
  },
  {
    what: "an engine that is not known",
    lines: [...INFERENCE, "serve: { engine: triton, ttft: 1s, tpot: 1s }", COMMAND],
    want: { path: "serve.engine", text: /vllm/ },
  },
])("$what is refused at its place", ({ lines, want }) => {
  const job = jobOf(...lines);
  if (job.kind !== "refused") throw new Error("it was accepted");
  const found = job.problems.find(({ path }) => path === want.path);
  expect(`${found?.message ?? JSON.stringify(job.problems)} ${found?.remedy ?? ""}`).toMatch(
    want.text,
  );
});

test.each([
  { name: "ORBWEAVER_ENGINE_ARGS", value: "--tp 2 --mem-fraction-static 0.873", want: true },
  { name: "ORBWEAVER_ENGINE_ARGS", value: "--tp 2 --trust-remote-code", want: false },
  { name: "ORBWEAVER_ENGINE_ARGS", value: "--tp 2 --model 5", want: false },
  { name: "ORBWEAVER_ENGINE_ARGS", value: "--tp $(id)", want: false },
  { name: "ORBWEAVER_ENGINE_ARGS", value: "--tp", want: false },
  { name: "ORBWEAVER_ENGINE_ARGS", value: "", want: false },
  { name: "VLLM_PP_LAYER_PARTITION", value: "11,11,10", want: true },
  { name: "SGLANG_PP_LAYER_PARTITION", value: "11,/x", want: false },
  { name: "LD_PRELOAD", value: "8", want: false },
])("a host takes $name=$value from a plan: $want", ({ name, value, want }) => {
  expect(isPlannedVariable(name, value)).toBe(want);
});
