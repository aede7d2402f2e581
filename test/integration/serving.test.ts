/** @file An ONNX model served as a job: from the job file to answers that are the whole model's, and the end of it. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { branchySample } from "../../models/onnx-samples.ts";
import { openOnnx } from "../../models/onnx-session.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

const SIDE = 16;
const MODEL = branchySample({ side: SIDE, depth: 2, width: 8 });

let world: World;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "orbweaver-serving-"));
  await writeFile(path.join(folder, "branchy.onnx"), MODEL);
  world = await startWorld({ address: inject("temporalAddress"), fleetYaml: SMALL_FLEET });
  await world.start("solver", ["worker", "--role", "solver"]);
});
afterAll(async () => {
  await world.stop();
  await rm(folder, { recursive: true });
});

interface Status {
  readonly state: string;
  readonly live: readonly { readonly served?: { readonly url: string; readonly line: string } }[];
  readonly attempts: readonly { readonly outfit?: readonly { part: string; kind: string }[] }[];
}

const statusOf = async (jobId: string): Promise<Status> => {
  const { stdout } = await world.cli(["status", jobId, "--json"]);
  return JSON.parse(stdout) as Status;
};

describe("an inference job with an .onnx model", () => {
  it("is planned, served over HTTP with the whole model's answers, and gone when it is cancelled", async () => {
    const file = path.join(folder, "job.yaml");
    // The model lies beside the job file.
    await writeFile(
      file,
      "name: branchy\nclass: inference\nmodel: branchy.onnx\ngang: 2\nrun: { grace: 5s }\n",
    );
    const submitted = await world.cli(["submit", file, "--json"]);
    expect(submitted).toMatchObject({ code: 0 });
    const { jobId } = JSON.parse(submitted.stdout) as { jobId: string };
    const servedAt = async (): Promise<string | undefined> =>
      (await statusOf(jobId)).live[0]?.served?.url;
    await expect.poll(servedAt, { timeout: 90_000, interval: 250 }).toMatch(/^http:/);
    const status = await statusOf(jobId);
    expect(status.attempts.at(-1)?.outfit).toMatchObject([{ part: "inference", kind: "done" }]);
    const url = status.live[0]?.served?.url ?? "";
    expect((await fetch(`${url}/healthz`)).status).toBe(200);

    const image = Float32Array.from({ length: 3 * SIDE ** 2 }, (_, at) => Math.sin(at));
    const shape = [1, 3, SIDE, SIDE];
    const whole = await openOnnx(MODEL);
    const want = await whole.run(new Map([["image", { type: "float32", shape, data: image }]]));
    await whole.release();
    const answer = await fetch(`${url}/infer`, {
      method: "POST",
      body: JSON.stringify({ inputs: [{ name: "image", shape, data: [...image] }] }),
    });
    expect(answer.status).toBe(200);
    const { outputs } = (await answer.json()) as { outputs: { name: string; data: number[] }[] };
    expect(outputs.map(({ name }) => name)).toEqual(["scores"]);
    const scores = [...(want.get("scores")?.data ?? [])].map(Number);
    const most = Math.max(...scores.map(Math.abs));
    const apart = scores.map((score, at) => Math.abs(score - (outputs[0]?.data[at] ?? NaN)));
    expect(Math.max(...apart)).toBeLessThanOrEqual(1e-5 * most);

    expect((await world.cli(["cancel", jobId])).code).toBe(0);
    await expect
      .poll(async () => (await statusOf(jobId)).state, { timeout: 60_000, interval: 250 })
      .toBe("cancelled");
    await world.until("the GPUs are free", ({ leases }) => leases.size === 0);
    await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  });
});
