/** @file Models served as jobs, by Orbweaver itself and by an engine: from the job file to answers or arguments, through an eviction, to the end. */

import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { directoryStore, type FleetDetails } from "../../activities/store.ts";
import { ordered } from "../../client/orders.ts";
import { parseNvidiaSmiTopo } from "../../domain/bandwidth/parse-nvidia-smi.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { branchySample } from "../../models/onnx/onnx-samples.ts";
import { openOnnx } from "../../models/onnx/onnx-session.ts";
import { parseHostId } from "../../domain/values/ids.ts";
import { configureUpdate, fleetWorkflowId } from "../../protocol/messages.ts";
import { storeDirOf } from "../../cli/up/places.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

const SIDE = 16;
const MODEL = branchySample({ side: SIDE, depth: 2, width: 8 });

/** All GPUs behind one switch. */
const MATRIX = `\tGPU0\tGPU1\tGPU2\tGPU3
GPU0\t X \tPIX\tPIX\tPIX
GPU1\tPIX\t X \tPIX\tPIX
GPU2\tPIX\tPIX\t X \tPIX
GPU3\tPIX\tPIX\tPIX\t X 
`;

/** What guests hold is lent to them by the owner, who may have it back. */
const FLEET = `
name: serving
policy: { reserve: 0 }
tenants:
  - { name: owner, quota: { H100: 4 } }
  - { name: guest, quota: { H100: 0 }, borrowing: 4 }
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: a1, gpus: 4, type: H100 }
`;

let world: World;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "orbweaver-serving-"));
  await writeFile(path.join(folder, "branchy.onnx"), MODEL);
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
  await describeHost(world);
  await world.start("solver", ["worker", "--role", "solver"]);
});
afterAll(async () => {
  await world.stop();
  removeFolder(folder);
});

/** As `fleet apply` does with a fleet file that names the matrix. */
async function describeHost({ stateDir, temporal, fleet, ledger }: World): Promise<void> {
  const read = parseNvidiaSmiTopo(MATRIX, { source: "topo.txt" });
  if (read.kind === "refused") throw new Error("the matrix is refused");
  const details: FleetDetails = {
    hosts: [[parseHostId("alpha/a1"), { topology: read.topology }]],
    interHost: [],
  };
  const detailsHash = await directoryStore(storeDirOf(path.join(stateDir, fleet))).put(details);
  const { shape } = await ledger();
  const call = { client: temporal, workflowId: fleetWorkflowId(fleet), subject: "the fleet" };
  await ordered(call, configureUpdate, { shape, detailsHash });
}

interface Status {
  readonly state: string;
  readonly live: readonly { readonly served?: { readonly url: string; readonly line: string } }[];
  readonly attempts: readonly {
    readonly gpus: readonly { readonly mask: number }[];
    readonly end?: string;
    readonly launchExtras?: readonly { part: string; kind: string }[];
  }[];
}

const statusOf = async (jobId: string): Promise<Status> => {
  const { stdout } = await world.cli(["status", jobId, "--json"]);
  return JSON.parse(stdout) as Status;
};

/** The model lies beside the job file. */
async function submit(name: string, lines: string): Promise<string> {
  const file = path.join(folder, `${name}.yaml`);
  await writeFile(file, `name: ${name}\nclass: inference\n${lines}`);
  const submitted = await world.cli(["submit", file, "--json"]);
  expect(submitted).toMatchObject({ code: 0 });
  return (JSON.parse(submitted.stdout) as { jobId: string }).jobId;
}

async function served(jobId: string, run: number): Promise<{ url: string; line: string }> {
  let found: { url: string; line: string } | undefined;
  const isServed = async (): Promise<boolean> => {
    const { attempts, live } = await statusOf(jobId);
    found = live[0]?.served;
    return attempts.length === run && found !== undefined;
  };
  await expect.poll(isServed, { interval: 500 }).toBe(true);
  return found ?? { url: "", line: "" };
}

async function cancelled(jobId: string): Promise<void> {
  expect((await world.cli(["cancel", jobId])).code).toBe(0);
  await expect.poll(async () => (await statusOf(jobId)).state, { interval: 500 }).toBe("cancelled");
}

const SHAPE = [1, 3, SIDE, SIDE];
const IMAGE = Float32Array.from({ length: 3 * SIDE ** 2 }, (_, at) => Math.sin(at));

/** Scores of the whole model, and those of the service. */
async function wanted(): Promise<readonly number[]> {
  const whole = await openOnnx(MODEL);
  const want = await whole.run(
    new Map([["image", { type: "float32", shape: SHAPE, data: IMAGE }]]),
  );
  await whole.release();
  return [...(want.get("scores")?.data ?? [])].map(Number);
}
async function answered(url: string): Promise<readonly number[]> {
  const answer = await fetch(`${url}/infer`, {
    method: "POST",
    body: JSON.stringify({ inputs: [{ name: "image", shape: SHAPE, data: [...IMAGE] }] }),
  });
  expect(answer.status).toBe(200);
  const { outputs } = (await answer.json()) as { outputs: { name: string; data: number[] }[] };
  expect(outputs.map(({ name }) => name)).toEqual(["scores"]);
  return outputs[0]?.data ?? [];
}

function expectSame(got: readonly number[], want: readonly number[]): void {
  const apart = want.map((score, at) => Math.abs(score - (got[at] ?? NaN)));
  expect(Math.max(...apart)).toBeLessThanOrEqual(1e-5 * Math.max(...want.map(Math.abs)));
}

describe("an inference job with an .onnx model", () => {
  it("is planned, served over HTTP with the whole model's answers, and gone when it is cancelled", async () => {
    const jobId = await submit(
      "branchy",
      "tenant: owner\nmodel: branchy.onnx\ngang: 2\nrun: { grace: 5s }\n",
    );
    const { url } = await served(jobId, 1);
    const { attempts } = await statusOf(jobId);
    const onGpus = { host: "alpha/a1", gpus: [{ direct: expect.any(Number) }, {}] };
    expect(attempts.at(-1)?.launchExtras).toMatchObject([
      { part: "inference", kind: "done", onGpus },
    ]);
    const shown = (await world.cli(["status", jobId])).stdout;
    expect(shown).toMatch(/branchy.* on alpha\/a1: .* ms from cold/);
    expect(shown).toMatch(/^bus bus0 \(52 GB\/s, GPU\d, GPU\d\): \d+ parameters?/m);
    expect(shown).not.toMatch(/assumed/);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expectSame(await answered(url), await wanted());
    await cancelled(jobId);
    await world.until("the GPUs are free", ({ leases }) => leases.size === 0);
    await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  });

  it("is preempted, takes fewer GPUs after its timeout, and gives the same answers by a new plan", async () => {
    const want = await wanted();
    const guest = await submit(
      "lent",
      `tenant: guest
model: branchy.onnx
gang: { gpus: 4, min: 2, timeout: 1s }
preemption: { allowed: true, minRuntime: 0s }
run: { grace: 5s }
`,
    );
    const first = await served(guest, 1);
    expect(first.line).toMatch(/\b4 GPUs/);
    expectSame(await answered(first.url), want);

    const owner = await submit(
      "back",
      "tenant: owner\ngang: 2\nrun: { command: [sleep, '600'] }\n",
    );
    const second = await served(guest, 2);
    expect(second.line).toMatch(/\b2 GPUs/);
    expectSame(await answered(second.url), want);
    const { attempts } = await statusOf(guest);
    expect(attempts).toMatchObject([
      {
        gpus: [{ mask: 0b1111 }],
        end: "stopped",
        launchExtras: [{ part: "inference", kind: "done" }],
      },
      { launchExtras: [{ part: "inference", kind: "done" }] },
    ]);
    const held = (await statusOf(guest)).attempts.at(-1)?.gpus ?? [];
    expect(held.map(({ mask }) => popCount(mask))).toEqual([2]);
    await Promise.all([cancelled(guest), cancelled(owner)]);
    // The next job takes fewer GPUs where it has to wait for them.
    await world.until("the GPUs are free", ({ leases }) => leases.size === 0);
  });
});

describe("an inference job with an engine for language models", () => {
  it("finds arguments for the GPUs of its lease, and others for fewer after a preemption", async () => {
    const guest = await submit(
      "chat",
      `tenant: guest
model: llama-3-8b
gang: { gpus: 4, min: 2, timeout: 1s }
preemption: { allowed: true, minRuntime: 0s }
serve: { engine: vllm, ttft: 1s, tpot: 60ms }
run: { command: "echo stand-in $ORBWEAVER_ENGINE_ARGS; exec sleep 600", grace: 5s }
`,
    );
    const gpusOf = async (): Promise<number> => {
      const { stdout } = await world.cli(["logs", guest]);
      const said = stdout.trim().split("\n").at(-1) ?? "";
      const degrees = [...said.matchAll(/--(?:tensor|pipeline|data)-parallel-size (\d+)/g)];
      return degrees.reduce((product, [, degree]) => product * Number(degree), degrees.length && 1);
    };
    await expect.poll(gpusOf, { interval: 500 }).toBe(4);
    expect((await world.cli(["status", guest])).stdout).toMatch(/engine +vllm: TP .* requests\/s/);

    const owner = await submit(
      "again",
      "tenant: owner\ngang: 2\nrun: { command: [sleep, '600'] }\n",
    );
    await expect.poll(gpusOf, { interval: 500 }).toBe(2);
    expect((await statusOf(guest)).attempts).toMatchObject([
      {
        gpus: [{ mask: 0b1111 }],
        end: "stopped",
        launchExtras: [{ part: "engine", kind: "done" }],
      },
      { launchExtras: [{ part: "engine", kind: "done" }] },
    ]);
    await Promise.all([cancelled(guest), cancelled(owner)]);
  });
});
