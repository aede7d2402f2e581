/** @file Weights that a host keeps: later services of the model give the same answers from them, and nothing else is taken for them. */

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { identityOf } from "../../../activities/serving-planner.ts";
import { wordMark } from "../../../domain/lease/kept-weights.ts";
import { servingPlanText, type ServingPlan } from "../../../domain/model/serving-plan.ts";
import { trialFeeds } from "../../../models/onnx/onnx-feeds.ts";
import { readOnnxModel } from "../../../models/onnx/onnx-model.ts";
import { transformerSample } from "../../../models/onnx/onnx-samples.ts";
import { onnxOperatorGraph } from "../../../models/onnx/onnx-operator-graph.ts";
import {
  beginKeeping,
  findKept,
  removeKept,
  howItLies,
  weightsKey,
  type WeightsPlace,
} from "../../../workers/serving/kept-weights.ts";
import {
  openKeptService,
  openService,
  type ModelService,
} from "../../../workers/serving/model-service.ts";
import { runService } from "../../../workers/serving/run-service.ts";
import { SERVICE_DEFAULTS } from "../../../workers/serving/service-options.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-weights-"));
afterAll(() => rmSync(folder, { recursive: true }));
let place: WeightsPlace;
let count = 0;
beforeEach(() => {
  count += 1;
  place = { dir: join(folder, `pool-${count}`), mostBytes: 2 ** 30 };
  mkdirSync(place.dir);
});

const modelFile = join(folder, "blocks.onnx");
const BYTES = transformerSample({ blocks: 2, width: 32, heads: 4, seed: 3 });
writeFileSync(modelFile, BYTES);
const read = readOnnxModel(BYTES, "blocks");
if (read.kind === "refused") throw new Error(read.message);
const { model } = read;

/** In one part, or cut in two that work side by side. */
async function planFor(cuts: 1 | 2): Promise<ServingPlan> {
  const measured = await onnxOperatorGraph(model, { timedRuns: 1, leastMs: 0 });
  if (measured.kind === "refused") throw new Error(measured.message);
  const all = measured.operators.flat().sort((a, b) => a - b);
  const half = Math.ceil(all.length / cuts);
  return {
    model: identityOf({ name: "blocks", bytes: BYTES }),
    gpus: cuts,
    parts: Array.from({ length: cuts }, (_, gpu) => ({
      gpu,
      operators: all.slice(gpu * half, (gpu + 1) * half),
    })),
  };
}

async function answersOf(service: ModelService): Promise<readonly number[]> {
  const made = trialFeeds(model, { bindings: new Map(), otherwise: 2, whole: 1 });
  if (made.kind === "refused") throw new Error(made.message);
  const answer = await service.batcher.submit(made.feeds.values);
  await service.close();
  if (answer.kind !== "answered") throw new Error(answer.kind);
  return [...answer.outputs.values()].flatMap(({ data }) => [...data].map(Number));
}

const options = SERVICE_DEFAULTS;
const keyOf = (plan: ServingPlan): string =>
  weightsKey({ modelFile, lies: howItLies(modelFile), plan, isBatching: true });

/** Serves the model as a first service does. */
async function first(plan: ServingPlan): Promise<readonly number[]> {
  const keeping = beginKeeping(place, keyOf(plan), BYTES.length);
  const opened = await openService({ name: "blocks", bytes: BYTES.slice() }, plan, {
    ...options,
    ...(keeping && { keeping }),
  });
  if (opened.kind === "refused") throw new Error(opened.message);
  return answersOf(opened.service);
}

describe("weights that a host keeps", () => {
  it.each([1, 2] as const)("give the answers of the file, over %i lanes", async (cuts) => {
    const plan = await planFor(cuts);
    expect(findKept(place, keyOf(plan))).toBeUndefined();
    const want = await first(plan);
    const kept = findKept(place, keyOf(plan));
    expect(kept?.files).toHaveLength(cuts);
    expect(kept?.bytes).toBeGreaterThan(BYTES.length / 2);
    if (kept === undefined) return;
    const opened = await openKeptService(kept, { name: "blocks", plan, options });
    if (opened.kind === "refused") throw new Error(opened.message);
    expect(opened.service.maxBatch).toBe(options.maxBatch);
    expect(opened.service.inputs).toEqual([
      { name: "x", type: "float32", shape: expect.anything() },
    ]);
    expect(await answersOf(opened.service)).toEqual(want);
  });

  it("name the jobs that used them, a bounded number", async () => {
    const plan = await planFor(1);
    place = { ...place, jobName: "pictures" };
    await first(plan);
    const marks = (): readonly string[] =>
      readdirSync(place.dir).flatMap((name) => name.split(".for-")[1] ?? []);
    expect(marks()).toEqual([wordMark("pictures")]);
    expect(findKept(place, keyOf(plan))).toBeDefined();
    expect(marks()).toHaveLength(1);
    for (let job = 0; job < 40; job += 1) {
      findKept({ ...place, jobName: `job-${String(job)}` }, keyOf(plan));
      expect(marks().length).toBeLessThanOrEqual(16);
    }
    expect(marks()).toContain(wordMark("job-39"));
  });

  it("are those of one file as it lies there, of one division and of one rule for batches", async () => {
    const [whole, halves] = [await planFor(1), await planFor(2)];
    const former = keyOf(whole);
    expect(keyOf(halves)).not.toBe(former);
    const lies = howItLies(modelFile);
    expect(weightsKey({ modelFile, lies, plan: whole, isBatching: false })).not.toBe(former);
    expect(keyOf(whole)).toBe(former);
    utimesSync(modelFile, new Date(1_000), new Date(1_000));
    expect(keyOf(whole)).not.toBe(former);
    // One that was replaced while a service read it keeps the former one's name.
    expect(weightsKey({ modelFile, lies, plan: whole, isBatching: true })).toBe(former);
  });

  it("are written by one service at a time, whole or not at all", async () => {
    const plan = await planFor(1);
    const key = keyOf(plan);
    const one = beginKeeping(place, key, BYTES.length);
    expect(one).toBeDefined();
    expect(beginKeeping(place, key, BYTES.length)).toBeUndefined();
    writeFileSync(one?.partAt(0) ?? "", "half a model");
    expect(findKept(place, key)).toBeUndefined();
    // A part that was not written.
    expect(
      one?.finish({
        inputs: [],
        outputs: [],
        parts: [
          { inputs: [], outputs: [] },
          { inputs: [], outputs: [] },
        ],
      }),
    ).toBe(false);
    expect(readdirSync(place.dir)).toEqual([]);
  });

  it("take no more than one model may", async () => {
    const plan = await planFor(1);
    expect(
      beginKeeping({ ...place, mostBytes: BYTES.length }, keyOf(plan), BYTES.length),
    ).toBeUndefined();
    // One that turned out larger than its file.
    const kept = beginKeeping({ ...place, mostBytes: 100 }, keyOf(plan), 10);
    writeFileSync(kept?.partAt(0) ?? "", "x".repeat(101));
    expect(kept?.finish({ inputs: [], outputs: [], parts: [{ inputs: [], outputs: [] }] })).toBe(
      false,
    );
    expect(readdirSync(place.dir)).toEqual([]);
  });

  it("that cannot be written or read cost nothing but themselves", async () => {
    const plan = await planFor(1);
    const want = await first(plan);
    const [part = ""] = findKept(place, keyOf(plan))?.files ?? [];
    truncateSync(part, 5);
    const kept = findKept(place, keyOf(plan));
    const opened = kept && (await openKeptService(kept, { name: "blocks", plan, options }));
    expect(opened?.kind).toBe("refused");
    removeKept(place, keyOf(plan));
    expect(readdirSync(place.dir)).toEqual([]);

    const keeping = beginKeeping(place, keyOf(plan), BYTES.length);
    rmSync(place.dir, { recursive: true });
    const served = await openService({ name: "blocks", bytes: BYTES.slice() }, plan, {
      ...options,
      ...(keeping && { keeping }),
    });
    if (served.kind === "refused") throw new Error(served.message);
    expect(await answersOf(served.service)).toEqual(want);
  });

  it("count as used when a service takes them", async () => {
    const plan = await planFor(1);
    await first(plan);
    const about = join(place.dir, `${keyOf(plan)}.json`);
    utimesSync(about, new Date(1_000), new Date(1_000));
    findKept(place, keyOf(plan));
    expect(statSync(about).mtimeMs).toBeGreaterThan(1_000);
  });

  it("are found by the service of a job, which then reads nothing of the model", async () => {
    const plan = await planFor(1);
    const planFile = join(folder, "blocks.plan");
    writeFileSync(planFile, servingPlanText(plan));
    const serve = async (): Promise<{ isKept?: boolean; said: string }> => {
      const said: string[] = [];
      let isKept: boolean | undefined;
      await runService(
        {
          ...{ modelFile, gpus: 1, devices: "cpu", address: "127.0.0.1", bindings: new Map() },
          plan: { file: planFile, isBinding: false },
          listen: { host: "127.0.0.1", port: 0 },
          service: options,
          weights: place,
        },
        { say: (line) => said.push(line), onReady: (ready) => ({ isKept } = ready) },
        AbortSignal.abort(),
      );
      return { ...(isKept !== undefined && { isKept }), said: said.join("\n") };
    };
    expect((await serve()).isKept).toBe(false);
    const second = await serve();
    expect(second.isKept).toBe(true);
    expect(second.said).toMatch(/loading blocks whole on 1 GPU.* that the host keeps in memory/);
    // What cannot be read is loaded from the file, and kept anew.
    const [part = ""] = findKept(place, keyOf(plan))?.files ?? [];
    truncateSync(part, 5);
    const third = await serve();
    expect(third.isKept).toBe(false);
    expect(third.said).toMatch(/cannot be used/);
    expect((await serve()).isKept).toBe(true);
  });
});
