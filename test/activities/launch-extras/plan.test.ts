/** @file The plan part of an outfit: which jobs want it, and what their processes find. */

import { readFileSync } from "node:fs";
import { expect, it, test } from "vitest";
import { packProfile } from "../../../activities/launch-extras/packed-profile.ts";
import { planProviderOver } from "../../../activities/launch-extras/plan.ts";
import { parseFleetYaml } from "../../../domain/fleet/fleet-file.ts";
import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { clusterId, hostId, jobId } from "../../../domain/values/ids.ts";
import { parseJobYaml } from "../../../domain/job/job-file.ts";
import type { JobSpec } from "../../../domain/job/job.ts";
import { extrasOf } from "../../../domain/lease/launch-extras.ts";
import type { KeptStep } from "../../../domain/model/step-record.ts";
import type { PlanDocument } from "../../../planning/parallelism/plan-document.ts";

function specOf(lines: string): JobSpec {
  const parsed = parseJobYaml(`name: train\ngang: { gpus: 4 }\nrun: { command: [x] }\n${lines}`, {
    file: "job.yaml",
  });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.spec;
}

function shape(): FleetShape {
  const text = `
clusters:
  - name: eu-1
    site: a
    jurisdiction: EU
    hosts: [{ name: "h[1-2]", gpus: 4, type: A100 }]
tenants:
  - { name: default, quota: { "*": 8 } }
`;
  const parsed = parseFleetYaml(text, { file: "f", read: () => ({ kind: "missing", reason: "" }) });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.fleet.shape;
}

const CONFIG =
  "{ model_type: gpt_neox, num_hidden_layers: 16, hidden_size: 1024, num_attention_heads: 8, intermediate_size: 4096, vocab_size: 50304, max_position_embeddings: 2048 }";

test.each([
  { lines: "model: gpt2-1.3b\nbatch: 32", want: ["plan"] },
  { lines: "model: LLaMA-7B\nbatch: 32", want: ["plan"] },
  { lines: "model: gpt2-1.3b", want: [] },
  { lines: "model: my-model.yaml\nbatch: 32", want: [] },
  { lines: `model: out/config.json\nmodelConfig: ${CONFIG}\nbatch: 32`, want: ["plan"] },
  { lines: `modelConfig: ${CONFIG}\nbatch: 32`, want: ["plan"] },
  { lines: "model: gnmt.txt\nmodelProfile: H4sI\nbatch: 32", want: ["plan"] },
  { lines: "model: gpt2-1.3b\nbatch: 32\nclass: interactive", want: [] },
  { lines: "model: gpt2-1.3b\nbatch: 32\narray: { count: 3 }", want: [] },
])("a job with $lines wants $want", ({ lines, want }) => {
  expect(extrasOf(specOf(lines))).toEqual(want);
});

const planProvider = planProviderOver(() => Promise.reject(new Error("nobody keeps steps")));

const order = (spec: JobSpec) => ({
  fleetWorkflowId: "fleet",
  jobId: jobId("job-1"),
  spec,
  gpus: [
    { host: hostId(clusterId("eu-1"), "h1"), mask: 0b0110 },
    { host: hostId(clusterId("eu-1"), "h2"), mask: 0b0011 },
  ],
  attempt: 1,
  parts: ["plan"] as const,
});

it("gives a file in which every rank of the lease has its place", async () => {
  const spec = specOf("model: gpt2-1.3b\nbatch: 32");
  const made = await planProvider.provide(order(spec), shape(), new AbortController().signal);
  expect(made?.env).toEqual({ ORBWEAVER_PLAN: "{files}/plan.json" });
  expect(made?.message).toMatch(/^plan of gpt2-1\.3b: DP \d/);
  // What the provider wrote is the document that launchers are promised.
  const plan = JSON.parse(made?.files[0]?.text ?? "") as PlanDocument;
  expect(plan.ranks.map(({ rank, host }) => [rank, host])).toEqual([
    [0, "eu-1/h1"],
    [1, "eu-1/h1"],
    [2, "eu-1/h2"],
    [3, "eu-1/h2"],
  ]);
});

it("is corrected by steps that runs of the model measured in the clusters of the lease, and says so", async () => {
  const spec = specOf("model: gpt2-1.3b\nbatch: 32");
  const provided = async (kept: readonly KeptStep[], former?: object) => {
    const asked: string[] = [];
    const made = await planProviderOver(({ cluster }) => {
      asked.push(cluster);
      return Promise.resolve(kept);
    }).provide(
      { ...order(spec), ...(former !== undefined && { former: former as never }) },
      shape(),
      new AbortController().signal,
    );
    expect(asked).toEqual(["eu-1"]);
    const step = made?.files.find(({ name }) => name === "plan-step.json")?.text ?? "";
    return { ...made, step: JSON.parse(step) as KeptStep };
  };
  const plain = await provided([]);
  expect(plain.message).not.toMatch(/corrected/);
  expect(plain.planned?.stepMs).toBe(plain.step.predictedMs);
  const run = {
    ...plain.step,
    run: "a",
    tenant: spec.tenant,
    measuredMs: 2 * plain.step.predictedMs,
    atMs: 1,
  };
  const runs = Array.from({ length: 8 }, () => run);
  const corrected = await provided(runs);
  expect(corrected.message).toMatch(/; corrected by 8 measured runs: compute × \d\.\d\d, comm/);
  const ratio = (corrected.planned?.stepMs ?? 0) / (plain.planned?.stepMs ?? 1);
  expect(ratio).toBeGreaterThan(1.6);
  expect(ratio).toBeLessThan(2);
  // Another model and another GPU type have measured nothing of this one.
  for (const other of [{ model: "m 1" }, { gpuType: "H100" }])
    expect((await provided(runs.map((each) => ({ ...each, ...other })))).planned).toEqual(
      plain.planned,
    );
  // What others measured counts once.
  const heard = await provided(runs.map((each) => ({ ...each, tenant: "other" })));
  expect((heard.planned?.stepMs ?? 0) / (plain.planned?.stepMs ?? 1)).toBeLessThan(1.51);
  const again = await provided(runs, { ...plain.planned, dataParallel: 4, pipelineParallel: 1 });
  expect(again.message).toMatch(/; (degrees as|other degrees than) before/);
});

it("plans a model by the configuration in the job file, with its tokens a sample", async () => {
  const spec = specOf(`model: pythia-410m\nmodelConfig: ${CONFIG}\nbatch: 32\nsequence: 512`);
  const made = await planProvider.provide(order(spec), shape(), new AbortController().signal);
  expect(made?.message).toMatch(/^plan of gpt_neox \(pythia-410m\): DP \d/);
  const plan = JSON.parse(made?.files[0]?.text ?? "") as PlanDocument;
  expect(plan.arguments.megatron).toContain("--seq-length 512");
  expect(plan.arguments.megatron).toContain("--num-layers 16");
});

it("says why there is no plan when the model does not fit", async () => {
  const spec = specOf("model: llama-70b\nbatch: 32");
  await expect(
    planProvider.provide(order(spec), shape(), new AbortController().signal),
  ).rejects.toThrow(/take \d+ of these GPUs/);
});

it("plans a profile of operators, and says the stage of each", async () => {
  const profile = packProfile(readFileSync("data/model-graphs/pipedream/gnmt.txt", "utf8"));
  const spec = specOf(`model: gnmt.txt\nmodelProfile: ${profile}\nprofiledOn: V100\nbatch: 32\n`);
  const made = await planProvider.provide(order(spec), shape(), new AbortController().signal);
  expect(made?.message).toMatch(/^plan of gnmt: DP \d/);
  const plan = JSON.parse(made?.files[0]?.text ?? "") as PlanDocument & {
    readonly operators: readonly { readonly id: string; readonly stage: number }[];
  };
  expect(plan.operators).toHaveLength(48);
  const stages = plan.operators.map(({ stage }) => stage);
  expect(stages).toEqual([...stages].sort((a, b) => a - b));
  expect(new Set(stages).size).toBe(plan.pipelineParallel);
});

test.each([
  { name: "what is not gzipped", packed: "AAAA", want: /not gzipped/ },
  { name: "what unpacks to too much", packed: packProfile(" ".repeat(5 << 20)), want: /bytes/ },
  { name: "another text", packed: packProfile("no profile"), want: /neither a node nor an edge/ },
  {
    name: "too many operators",
    packed: packProfile(
      Array.from(
        { length: 4_001 },
        (_, at) =>
          `node${String(at)} -- Op -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1\n`,
      ).join(""),
    ),
    want: /4001 operators are too many/,
  },
])("starts without a plan for $name", async ({ packed, want }) => {
  const spec = specOf(`model: x\nmodelProfile: ${packed}\nbatch: 32`);
  await expect(
    planProvider.provide(order(spec), shape(), new AbortController().signal),
  ).rejects.toThrow(want);
});
