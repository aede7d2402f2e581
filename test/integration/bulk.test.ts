/** @file Many submissions at once, from one process and from several: each is there once, in order, and none fails for the crowd. */

import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, SMALL_FLEET, startWorld, type World } from "../support/world.ts";

const COUNT = 1_000;
const PROCESSES = 6;
const EACH = 10;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

/** More GPUs than the fleet has, so that they wait and only their submission is work. */
const waiting = (name: string) => ({ name, gang: { gpus: 999 }, run: { command: ["true"] } });

async function countOf(prefix: string): Promise<number> {
  let count = 0;
  const query = `WorkflowType = "job" AND WorkflowId STARTS_WITH "${prefix}"`;
  for await (const _job of world.temporal.workflow.list({ query })) count += 1;
  return count;
}

function submit(
  file: string,
): Promise<{ readonly status: number | null; readonly out: string; readonly err: string }> {
  const child = spawn(
    process.execPath,
    [path.join(ROOT, "dist/cli/main.js"), "submit", "--queue-anyway", file],
    {
      env: { ...world.env, ORBWEAVER_FLEET: world.fleet },
    },
  );
  let [out, err] = ["", ""];
  child.stdout.on("data", (part: Buffer) => (out += part.toString()));
  child.stderr.on("data", (part: Buffer) => (err += part.toString()));
  return new Promise((resolve) => child.on("close", (status) => resolve({ status, out, err })));
}

it("a thousand jobs of one process are submitted in order, each once", async () => {
  const prefix = `bulk-${world.fleet}-`;
  const jobs = Array.from({ length: COUNT }, (_, at) => ({
    ...waiting("bulk"),
    idempotencyKey: `${prefix}${String(at)}`,
  }));
  const answers = await world.orbweaver.submitAll(jobs, { isQueuedAnyway: true });
  expect(answers).toEqual(
    jobs.map(({ idempotencyKey }) => ({ jobId: idempotencyKey, isNew: true })),
  );
  await expect.poll(() => countOf(prefix), { interval: 1_000 }).toBe(COUNT);
  // All of them again, as after a lost answer.
  const again = await world.orbweaver.submitAll(jobs.slice(0, 50), { isQueuedAnyway: true });
  expect(again.every(({ isNew }) => !isNew)).toBe(true);
});

it("one file has many jobs; several processes send theirs at once, and later ones wait for earlier ones by name", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-bulk-"));
  const files = Array.from({ length: PROCESSES }, (_, process_) => {
    const documents = Array.from({ length: EACH }, (_, at) =>
      JSON.stringify({
        ...waiting(`many-${String(process_)}-${String(at)}`),
        ...(at === EACH - 1 && { after: [{ job: `many-${String(process_)}-0` }] }),
      }),
    );
    const file = path.join(folder, `many-${String(process_)}.yaml`);
    writeFileSync(file, documents.join("\n---\n"));
    return file;
  });
  const done = await Promise.all(files.map(submit));
  for (const [at, { status, out, err }] of done.entries()) {
    expect(err).toBe("");
    expect(status).toBe(0);
    const ids = out.trim().split("\n");
    expect(ids.map((id) => id.replace(/-[0-9a-z]{6}$/, ""))).toEqual(
      Array.from({ length: EACH }, (_, each) => `many-${String(at)}-${String(each)}`),
    );
  }
  await expect.poll(() => countOf("many-"), { interval: 1_000 }).toBe(PROCESSES * EACH);
});

it("a bad job of a file refuses all of it, with its place", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-bulk-"));
  const file = path.join(folder, "bad.yaml");
  writeFileSync(
    file,
    "name: spoilt-a\ngang: 1\nrun: { command: [x] }\n---\nname: spoilt-b\ngang: none\nrun: { command: [x] }\n",
  );
  const { status, out, err } = await submit(file);
  expect(status).not.toBe(0);
  expect(out).toBe("");
  expect(err).toMatch(/bad\.yaml:6/);
  expect(await countOf("spoilt-")).toBe(0);
});
