/** @file `orbweaver plan`: from flags, a job file or a fleet file, as text within 80 columns and as a document. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, test } from "vitest";
import { transformerSample } from "../../../../models/onnx/onnx-samples.ts";
import type { PlanDocument } from "../../../../planning/parallelism/plan-document.ts";
import {
  stepSubject,
  type StepCorrections,
} from "../../../../planning/parallelism/step-corrections.ts";
import { host, preset, siteOf } from "../../../planning/parallelism/sites.ts";
import { run } from "../../run.ts";

const PIPEDREAM = new URL("../../../../data/model-graphs/pipedream/vgg16.txt", import.meta.url)
  .pathname;

const FLEET = `
clusters:
  - name: eu-1
    site: frankfurt
    jurisdiction: EU
    hosts: [{ name: "h[1-2]", gpus: 4, type: A100 }]
  - name: us-1
    site: ohio
    jurisdiction: US
    hosts: [{ name: "a1", gpus: 2, type: V100-32 }]
tenants:
  - { name: default, quota: { "*": 10 } }
`;

const JOB = `
name: train
model: gpt2-1.3b
batch: 32
gang: { gpus: 8 }
run: { command: [python, train.py] }
`;

function folder(): string {
  const cwd = mkdtempSync(join(tmpdir(), "orbweaver-plan-"));
  writeFileSync(join(cwd, "fleet.yaml"), FLEET);
  writeFileSync(join(cwd, "job.yaml"), JOB);
  return cwd;
}

const plannedFrom = async (words: readonly string[], cwd?: string): Promise<PlanDocument> => {
  const said = await run(["plan", ...words, "--json"], cwd === undefined ? {} : { cwd });
  expect(said.stderr).toBe("");
  // What the command printed is the document that this test is about.
  return JSON.parse(said.stdout) as PlanDocument;
};

test.each([
  { model: "gpt2-350m", wantLayers: 24, wantMillions: 355 },
  { model: "opt-13b", wantLayers: 40, wantMillions: 12_850 },
  { model: "bert-110m", wantLayers: 12, wantMillions: 110 },
  { model: "llama-70b", wantLayers: 80, wantMillions: 68_980 },
])("$model shows its layers with parameters, FLOPs and activations", async (row) => {
  const { model, wantLayers, wantMillions } = row;
  const { stdout } = await run(["plan", "--model", model, "--batch", "64", "--gpus", "a:8,b:8"]);
  const blocks = /^block 0 – block \d+ +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$/m.exec(
    stdout,
  );
  expect(Number(blocks?.[1])).toBe(wantLayers);
  for (const figure of blocks?.slice(2) ?? []) expect(Number(figure)).toBeGreaterThan(0);
  const all = /^all +\d+ +([\d.]+)/m.exec(stdout);
  expect(Math.abs(Number(all?.[1]) / wantMillions - 1)).toBeLessThan(0.02);
});

it.each([
  { gpus: "eu/h1:2:T4,eu/h2:8:A100", wantLead: "eu/h2", wantLine: true },
  { gpus: "eu/h1:4", wantLead: "eu/h1", wantLine: false },
])("says on which host ranks begin where that is not the first of $gpus", async (row) => {
  const words = ["--model", "gpt2-1.3b", "--batch", "8", "--gpus", row.gpus];
  const { stdout } = await run(["plan", ...words]);
  const { hosts, ranks } = await plannedFrom(words);
  const first = { host: row.wantLead, stage: 0 };
  expect(ranks.find(({ rank }) => rank === 0)).toMatchObject(first);
  expect(hosts[0]).toBe(row.wantLead);
  expect(stdout.includes(`Ranks begin on ${row.wantLead}`)).toBe(row.wantLine);
});

it("fits the screen and gives the arguments of both launchers", async () => {
  const { code, stdout } = await run([
    "plan",
    "--model",
    "GPT-2 1.3B",
    "--batch",
    "64",
    "--gpus",
    "a:4,b:4",
  ]);
  expect(code).toBe(0);
  const [tables = ""] = stdout.split("Megatron-LM");
  for (const line of tables.split("\n").filter((text) => /^\w+ {2,}/.test(text)))
    expect(line.length).toBeLessThanOrEqual(80);
  expect(stdout).toMatch(/1\.31 billion parameters, batch 64/);
  expect(stdout).toMatch(/--pipeline-model-parallel-size \d/);
  expect(stdout).toMatch(/"train_batch_size":64/);
  expect(stdout).toMatch(/next best: DP \d/);
});

test.each([
  { words: ["--gpus", "a:8"], want: undefined },
  { words: ["--gpus", "a:4,b:4"], want: "1 GB/s over the network card of each host of local" },
  { words: ["--gpus", "a:4,b:4", "--fabric", "12.5"], want: undefined },
  // A card without NVLink.
  { words: ["--gpus", "a:4:L40S"], want: "4 GB/s between the GPUs of a" },
  {
    words: ["--gpus", "eu/a:4,us/b:4", "--fabric", "9"],
    want: "0.625 GB/s and 10 ms between eu and us",
  },
  {
    words: ["--gpus", "eu/a:4,us/b:4", "--wan", "5"],
    want: "5 GB/s over the network card of each host of eu, us",
  },
])("the first line of a plan for $words names what nobody stated", async ({ words, want }) => {
  const { stdout } = await run(["plan", "--model", "gpt2-350m", "--batch", "32", ...words]);
  const [first = ""] = stdout.split("\n");
  if (want === undefined) expect(first).toMatch(/^gpt2-350m: /);
  else expect(first).toContain(`Assumed, since nobody stated it: ${want}.`);
});

describe("the document", () => {
  it("gives every rank one place and every group its ranks", async () => {
    const plan = await plannedFrom(["--model", "gpt2-4.2b", "--batch", "64", "--gpus", "a:8,b:8"]);
    const { dataParallel: d, pipelineParallel: p, tensorParallel: t } = plan;
    expect(d * p * t).toBe(16);
    expect(plan.ranks.map(({ rank }) => rank)).toEqual(Array.from({ length: 16 }, (_, at) => at));
    expect(new Set(plan.ranks.map(({ megatronRank }) => megatronRank)).size).toBe(16);
    for (const [groups, size] of [
      [plan.groups.tensor, t],
      [plan.groups.data, d],
      [plan.groups.pipeline, p],
    ] as const) {
      expect(groups.flat().sort((a, b) => a - b)).toEqual(
        Array.from({ length: 16 }, (_, at) => at),
      );
      for (const group of groups) expect(group).toHaveLength(size);
    }
    expect(plan.stages.reduce((sum, { layers }) => sum + layers, 0)).toBe(38);
    for (const group of plan.groups.tensor)
      expect(new Set(group.map((rank) => plan.ranks[rank]?.host)).size).toBe(1);
  });

  it("keeps to the degrees that were asked for", async () => {
    const words = [
      "--model",
      "bert-340m",
      "--batch",
      "32",
      "--gpus",
      "a:8",
      "--dp",
      "2",
      "--pp",
      "4",
    ];
    expect(await plannedFrom(words)).toMatchObject({
      dataParallel: 2,
      pipelineParallel: 4,
      tensorParallel: 1,
    });
  });

  it("takes model, batch and GPUs from a job, and the hosts from a fleet", async () => {
    const plan = await plannedFrom(["job.yaml", "--fleet", "fleet.yaml"], folder());
    expect(plan.globalBatch).toBe(32);
    expect([...new Set(plan.ranks.map(({ host }) => host))]).toEqual(plan.hosts);
    expect([...plan.hosts].sort()).toEqual(["eu-1/h1", "eu-1/h2"]);
  });

  it("is corrected by what runs of the fleet measured, where it runs, and says by how much", async () => {
    const cwd = folder();
    const words = ["plan", "job.yaml", "--fleet", "fleet.yaml"];
    const step = {
      ...{ gpuType: "A100", plan: "DP 8", run: "r", tenant: "default", predictedMs: 1_000 },
      ...{ computeMs: 1_000, communicationMs: 50, otherMs: 5, measuredMs: 2_000, atMs: 1 },
      model: stepSubject(preset("gpt2-1.3b"), siteOf(host("eu-1", 4))).model,
    };
    const asked: string[] = [];
    const temporal = {
      withDeadline: (_: unknown, call: () => Promise<unknown>) => call(),
      workflow: {
        getHandle: (id: string) => ({
          query: () => {
            asked.push(id);
            return id.endsWith("eu-1")
              ? Promise.resolve([step, step, step])
              : Promise.reject(new Error("no such workflow"));
          },
        }),
      },
    };
    const plain = await plannedFrom(words.slice(1), cwd);
    const said = await run([...words, "--json"], { cwd, client: {}, temporal });
    expect(said.stderr).toBe("");
    const plan = JSON.parse(said.stdout) as PlanDocument & { corrections: StepCorrections };
    expect(plan.corrections.runs).toBe(3);
    expect(plan.corrections.compute).toBeGreaterThan(1.3);
    expect(plan.predicted.stepMs / plain.predicted.stepMs).toBeGreaterThan(1.3);
    expect(plain).not.toHaveProperty("corrections");
    expect(asked).toEqual(["orbweaver-bandwidth-default-eu-1", "orbweaver-bandwidth-default-us-1"]);
    const { stdout } = await run(words, { cwd, client: {}, temporal });
    expect(stdout).toMatch(/^The prediction is corrected by 3 measured runs: compute × 1\.\d\d/m);
  });

  it("plans an ONNX file with its open dimensions bound", async () => {
    const cwd = folder();
    writeFileSync(join(cwd, "small.onnx"), transformerSample({ blocks: 4, width: 64 }));
    const words = ["--model", "small.onnx", "--batch", "8", "--gpus", "a:2"];
    const plan = await plannedFrom([...words, "--bind", "batch=1", "--bind", "sequence=16"], cwd);
    expect(plan.ranks).toHaveLength(2);
    expect(plan.globalBatch).toBe(8);
  });

  it.each(["config.json", "."])(
    "plans a model of Hugging Face from %s at another sequence length",
    async (name) => {
      const cwd = folder();
      const config = {
        ...{
          model_type: "qwen2",
          num_hidden_layers: 24,
          hidden_size: 896,
          num_attention_heads: 14,
        },
        ...{ num_key_value_heads: 2, intermediate_size: 4864, vocab_size: 151_936 },
        ...{ tie_word_embeddings: true, max_position_embeddings: 32_768, rope_theta: 1e6 },
      };
      writeFileSync(join(cwd, "config.json"), JSON.stringify(config));
      const words = ["--model", name, "--batch", "16", "--gpus", "a:4:H100", "--sequence", "2048"];
      const plan = await plannedFrom(words, cwd);
      expect(plan.model).toMatch(/^qwen2 \(orbweaver-plan-/);
      expect(plan.arguments.megatron).toEqual(
        expect.arrayContaining(["--seq-length 2048", "--add-qkv-bias", "--rotary-base 1000000"]),
      );
    },
  );

  it("plans a profiled graph", async () => {
    const plan = await plannedFrom([
      "--model",
      PIPEDREAM,
      "--batch",
      "16",
      "--gpus",
      "a:4:V100-32",
    ]);
    expect(plan.model).toBe("vgg16");
    expect(plan.ranks).toHaveLength(4);
  });
});

test.each([
  { words: [], want: /there is no model to plan with/ },
  { words: ["--model", "gpt2-1.3b"], want: /there is no batch/ },
  { words: ["--model", "gpt2-1.3b", "--batch", "8"], want: /there are no GPUs/ },
  {
    words: ["--model", "gpt9", "--batch", "8", "--gpus", "a:8"],
    want: /neither a preset nor a file/,
  },
  { words: ["--model", "gpt2-1.3b", "--batch", "8", "--gpus", "a"], want: /"a" is not host:count/ },
  {
    words: ["--model", "gpt2-1.3b", "--batch", "8", "--gpus", "a:8:Z9"],
    want: /GPU type Z9 of a is not known/,
  },
  {
    words: ["--model", "gpt2-1.3b", "--batch", "8", "--gpus", "a:8:H100:1g.10gb"],
    want: /H100:1g\.10gb of a is an instance of MIG.*Name whole GPUs, such as H100/,
  },
  {
    words: ["--model", "gpt2-1.3b", "--batch", "8", "--gpus", "a:8", "--sequence", "2048"],
    want: /the model has 1024 positions, not 2048/,
  },
  {
    words: ["--model", "opt-13b", "--batch", "8", "--gpus", "a:2:V100"],
    want: /take \d+ of these GPUs/,
  },
  { words: ["--model", "opt-13b", "--batch", "8", "--gpus", "a:2,a:2"], want: /a is named twice/ },
])("refuses with one clear line: $want", async ({ words, want }) => {
  const { code, stdout, stderr } = await run(["plan", ...words]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(want);
});

describe("--serve", () => {
  const SERVE = ["plan", "--serve", "vllm", "--ttft", "500ms", "--tpot", "40ms"];
  const ON = ["--model", "llama-3-8b", "--gpus", "a:8:H100"];

  it("shows the split, its times and memory, the engine's arguments and the other splits within 80 columns", async () => {
    const { stdout, stderr } = await run([...SERVE, ...ON]);
    expect(stderr).toBe("");
    expect(stdout).toMatch(/llama-3-8b by vllm, on 8 of 8 H100 GPUs/);
    expect(stdout).toMatch(
      /99 requests in 100 at [\d.]+ requests\/s: TTFT \d+ of 500 ms, TPOT [\d.]+ of 40 ms/,
    );
    expect(stdout).toMatch(/--tensor-parallel-size \d/);
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("takes the fewest GPUs for a stated rate, and says when all are too few", async () => {
    const few = await run([...SERVE, ...ON, "--rate", "5", "--json"]);
    expect(JSON.parse(few.stdout)).toMatchObject({ gpus: 1, isKept: true, statedRatePerS: 5 });
    const much = await run([...SERVE, ...ON, "--rate", "5000"]);
    expect(much.stdout).toMatch(/These GPUs do not keep both times at 5000\.0 requests\/s/);
  });

  it("plans a job file with serve.engine by its own times", async () => {
    const cwd = mkdtempSync(join(tmpdir(), "orbweaver-plan-"));
    writeFileSync(
      join(cwd, "job.yaml"),
      `name: chat\nclass: inference\nmodel: llama-3-8b\ngang: 2\nserve: { engine: sglang, ttft: 1s, tpot: 60ms }\nrun: { command: "python -m sglang.launch_server $ORBWEAVER_ENGINE_ARGS" }\n`,
    );
    const { stdout } = await run(["plan", "job.yaml", "--json"], { cwd });
    expect(JSON.parse(stdout)).toMatchObject({
      engine: "sglang",
      goal: { ttftMs: 1000, tpotMs: 60 },
      gpus: 2,
    });
  });

  test.each([
    { words: ["--serve", "vllm", "--ttft", "1s", ...ON], want: /Give --tpot/ },
    {
      words: ["--rate", "3", "--batch", "8", ...ON],
      want: /--rate says nothing without an engine/,
    },
    { words: [...SERVE.slice(1), ...ON, "--batch", "8"], want: /--batch/ },
    {
      words: [...SERVE.slice(1), "--model", "llama-3.1-405b", "--gpus", "a:8"],
      want: /does not fit/,
    },
    {
      words: [...SERVE.slice(1), "--model", "llama-7b", "--gpus", "a:8:H100,b:8:A100"],
      want: /GPUs of one kind/,
    },
    { words: [...SERVE.slice(1), "--model", PIPEDREAM, "--gpus", "a:8"], want: /no transformer/ },
  ])("refuses $words", async ({ words, want }) => {
    const { code, stderr } = await run(["plan", ...words]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(want);
  });
});
