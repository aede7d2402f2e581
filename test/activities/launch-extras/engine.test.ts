/** @file The engine part of the launch extras: the arguments that a run finds, and why it starts without them. */

import { expect, it } from "vitest";
import { extrasFrom } from "../../../activities/launch-extras/launch-extras.ts";
import { engineProvider } from "../../../activities/launch-extras/engine.ts";
import { parseFleetYaml } from "../../../domain/fleet/fleet-file.ts";
import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { parseJobYaml } from "../../../domain/job/job-file.ts";
import { clusterId, hostId, jobId } from "../../../domain/values/ids.ts";

function shape(): FleetShape {
  const text = `
clusters:
  - name: eu-1
    site: a
    jurisdiction: EU
    hosts: [{ name: "h[1-2]", gpus: 8, type: H100 }]
tenants:
  - { name: default, quota: { "*": 16 } }
`;
  const parsed = parseFleetYaml(text, { file: "f", read: () => ({ kind: "missing", reason: "" }) });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.fleet.shape;
}

async function made(model: string, mask: number) {
  const job = parseJobYaml(
    [
      "name: chat",
      "class: inference",
      "gang: { gpus: 8, min: 1 }",
      `model: ${model}`,
      "serve: { engine: vllm, ttft: 1s, tpot: 60ms }",
      "run: { command: vllm serve /m $ORBWEAVER_ENGINE_ARGS }",
    ].join("\n"),
    { file: "job.yaml" },
  );
  if (job.kind === "refused") throw new Error(JSON.stringify(job.problems));
  const order = {
    fleetWorkflowId: "fleet",
    jobId: jobId("job-1"),
    spec: job.spec,
    gpus: [{ host: hostId(clusterId("eu-1"), "h1"), mask }],
    attempt: 1,
    parts: ["engine"] as const,
  };
  const ports = { storeDir: "/nowhere", loadProvider: () => Promise.resolve(engineProvider) };
  return extrasFrom(order, shape(), ports);
}

it("splits a model over all GPUs of the lease, and anew over fewer", async () => {
  const [whole, half] = [await made("llama-3-8b", 0xff), await made("llama-3-8b", 0x3)];
  const args = (made: typeof whole): string => made.env["ORBWEAVER_ENGINE_ARGS"] ?? "";
  const gpus = (text: string): number =>
    ["tensor", "pipeline", "data"].reduce((product, kind) => {
      const [, size = "1"] = new RegExp(`--${kind}-parallel-size (\\d+)`).exec(text) ?? [];
      return product * Number(size);
    }, 1);
  expect([gpus(args(whole)), gpus(args(half))]).toEqual([8, 2]);
  expect(whole.notes).toMatchObject([
    {
      part: "engine",
      kind: "done",
      message: expect.stringMatching(/^vllm: TP .*requests\/s/) as string,
    },
  ]);
});

it("says how many GPUs of the lease no replica uses", async () => {
  const [even, odd] = [await made("llama-3-70b", 0x3f), await made("llama-3-70b", 0x7f)];
  expect(odd.notes).toMatchObject([
    {
      kind: "done",
      message: expect.stringMatching(/PP 2, 3 replicas: .*; 1 of 7 GPUs idle: no split/) as string,
    },
  ]);
  expect(even.notes[0]?.message).not.toMatch(/idle/);
});

it("leaves a note with the shortfall when the model does not fit the lease", async () => {
  const small = await made("llama-70b", 0b1);
  expect(small.env).toEqual({});
  expect(small.notes).toMatchObject([
    { kind: "fallback", message: expect.stringMatching(/does not fit.*of 80 GiB/) as string },
  ]);
});
