/** @file A service of replicas on a real fleet: from no replica to answers, GPUs taken from training and given back, and no request lost. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { popCount } from "../../domain/lease/lease.ts";
import { branchySample } from "../../models/onnx/onnx-samples.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

/** What guests hold is lent to them by the owner, who may have it back. */
const FLEET = `
name: replicas
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
const ENGINE = path.join(ROOT, "test/support/stand-in-engine.mjs");
const SIDE = 16;
/** Fewer than an endpoint lets wait: on a slow machine a replica is away for minutes. */
const MOST_UNDER_WAY = 200;

let world: World;
let folder: string;
const endpoints: ChildProcess[] = [];
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "orbweaver-replicas-"));
  await writeFile(path.join(folder, "branchy.onnx"), branchySample({ side: SIDE, depth: 1 }));
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
  await world.start("solver", ["worker", "--role", "solver"]);
});
afterAll(async () => {
  for (const each of endpoints) each.kill("SIGKILL");
  await world.stop();
  removeFolder(folder);
});

async function written(name: string, lines: string): Promise<string> {
  const file = path.join(folder, `${name}.yaml`);
  await writeFile(file, `name: ${name}\n${lines}`);
  return file;
}

/** Starts an endpoint and resolves with its address when it listens. */
async function endpoint(
  file: string,
): Promise<{ readonly url: string; readonly child: ChildProcess }> {
  const main = path.join(ROOT, "dist/cli/main.js");
  const child = spawn(process.execPath, [main, "serve", "replicas", file, "--port", "0"], {
    env: world.env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  endpoints.push(child);
  for await (const line of createInterface({ input: child.stdout })) {
    const url = / at (http:\S+),/.exec(line)?.[1];
    if (url !== undefined) return { url, child };
  }
  throw new Error("the endpoint has ended");
}

async function answer(url: string, tokens: number, isStream = false): Promise<string> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "Once upon a time", max_tokens: tokens, stream: isStream }),
  });
  expect(response.status).toBe(200);
  return await response.text();
}

const replicasOf = async (name: string): Promise<number> =>
  [...(await world.ledger()).leases.values()].filter(({ jobId }) => jobId.startsWith(`${name}-`))
    .length;

describe("a service of an engine for language models", () => {
  it("takes GPUs from training for its requests, loses none, and gives them back when it idles", async () => {
    const training = await written(
      "train",
      `tenant: guest
class: training
gang: { gpus: 4, min: 1, timeout: 1s, grow: true }
preemption: { allowed: true, minRuntime: 0s }
run: { command: [sleep, "600"], grace: 2s, checkpoint: { signal: TERM, dir: ${folder}, grace: 2s } }
`,
    );
    expect((await world.cli(["submit", training])).code).toBe(0);
    await world.until("training has all GPUs", ({ leases }) => leases.size === 1);
    const file = await written(
      "chat",
      `tenant: owner
class: inference
gang: 1
model: llama-3-8b
serve: { engine: vllm, ttft: 500ms, tpot: 8ms, max: 3, scaleToZero: 10s }
run: { command: "exec ${process.execPath} ${ENGINE} $ORBWEAVER_ENGINE_ARGS", grace: 10s }
`,
    );
    const { url, child } = await endpoint(file);
    expect(await replicasOf("chat")).toBe(0);
    expect((await fetch(`${url}/v2/models/chat/ready`)).status).toBe(200);

    // From cold: the request waits for its replica and is answered.
    expect(await answer(url, 4)).toContain("t0 t1 t2 t3 ");
    expect(await replicasOf("chat")).toBe(1);

    // A burst wants more replicas than one has slots for, and keeps one of them busy for longer than a minute, in which the others come also on a slow machine.
    const asked = Promise.all(
      Array.from({ length: 30 }, (_, at) => answer(url, 1_500, at % 2 === 0)),
    );
    // Told where it is awaited.
    asked.catch(() => undefined);
    await expect.poll(() => replicasOf("chat"), { interval: 250 }).toBe(3);
    const texts = await asked;
    for (const [at, text] of texts.entries()) {
      expect(text).toContain("t1499 ");
      expect(text.endsWith("data: [DONE]\n\n")).toBe(at % 2 === 0);
    }
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toMatch(/requests_total\{end="answered"\} 31\n/);
    expect(metrics).toMatch(/requests_total\{end="lost"\} 0\n/);
    expect(metrics).toMatch(/ttft_seconds_count 15\n/);

    // Idle: all back, and training has its four GPUs again.
    await expect.poll(() => replicasOf("chat"), { interval: 250 }).toBe(0);
    await world.until(
      "training has its GPUs again",
      ({ leases }) =>
        [...leases.values()]
          .flatMap(({ gpus }) => gpus)
          .reduce((sum, { mask }) => sum + popCount(mask), 0) === 4,
    );

    expect(await answer(url, 2)).toContain("t0 t1 ");
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
    await expect.poll(() => replicasOf("chat"), { interval: 250 }).toBe(1);
    expect((await world.cli(["cancel", "--label", "orbweaver/service=chat", "--yes"])).code).toBe(
      0,
    );
  });
});

describe("a service of an .onnx model", () => {
  it("answers its first request from no replica, and goes on after its replica was requeued under load", async () => {
    const file = await written(
      "pictures",
      `tenant: owner
class: inference
gang: 1
model: branchy.onnx
serve: { scaleToZero: 60s }
run: { grace: 5s }
`,
    );
    const { url } = await endpoint(file);
    const image = {
      name: "image",
      shape: [1, 3, SIDE, SIDE],
      data: Array(3 * SIDE ** 2).fill(0.5),
    };
    const infer = async (): Promise<number> => {
      const response = await fetch(`${url}/v2/models/branchy/infer`, {
        method: "POST",
        body: JSON.stringify({ inputs: [image] }),
      });
      await response.text();
      return response.status;
    };
    expect(await infer()).toBe(200);
    const statuses: Promise<number | string>[] = [];
    let underWay = 0;
    const load = setInterval(() => {
      if (underWay === MOST_UNDER_WAY) return;
      underWay += 1;
      statuses.push(
        infer()
          .catch(String)
          .finally(() => (underWay -= 1)),
      );
    }, 50);
    try {
      const { leases } = await world.ledger();
      const lease = [...leases.values()].find(({ jobId }) => jobId.startsWith("pictures-"));
      expect((await world.cli(["requeue", lease?.jobId ?? ""])).code).toBe(0);
      await world.until("it runs again", (ledger) =>
        [...ledger.leases.values()].some(
          ({ jobId, token }) => jobId === lease?.jobId && token !== lease.token,
        ),
      );
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    } finally {
      clearInterval(load);
    }
    const ended = await Promise.all(statuses);
    expect(ended.length).toBeGreaterThan(20);
    expect(ended.filter((status) => status !== 200)).toEqual([]);
  });
});
