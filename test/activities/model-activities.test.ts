/** @file What a solver worker does for a bandwidth model: each order once, whatever dies; only what is better serves. */
import { ApplicationFailure } from "@temporalio/common";
import type { Client } from "@temporalio/client";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createModelActivities } from "../../activities/model-activities.ts";
import type { ModelActivities, OrderedSample } from "../../protocol/model-contract.ts";
import { directoryStore } from "../../activities/store.ts";
import { parseHostId } from "../../domain/values/ids.ts";
import { checkOnnxruntime } from "../../models/onnxruntime.ts";
import { modelDirOf, openRegistry, type ModelRegistry } from "../../models/bandwidth/registry.ts";
import { fleetShape } from "../scheduling/builders.ts";
import { meanLearner, modelDraft } from "./stand-in-learner.ts";

const [CLUSTER] = fleetShape([{ hosts: [{ gpus: 8 }, { gpus: 8 }] }]).clusters;
const PLACE = { fleet: "default", cluster: "c0" };

let storeDir = "";
let registry: ModelRegistry;
let learned = 0;
beforeEach(async () => {
  storeDir = await mkdtemp(path.join(tmpdir(), "orbweaver-solver-"));
  registry = openRegistry(modelDirOf(storeDir, "c0"));
  learned = 0;
});
afterEach(() => rm(storeDir, { recursive: true, force: true }));

function solver({ dies }: { readonly dies?: Error } = {}): ModelActivities {
  const handle = { query: () => Promise.resolve({ cluster: CLUSTER }) };
  const client = { workflow: { getHandle: () => handle } } as unknown as Client; // all that is asked of it
  return createModelActivities({
    client,
    storeDir,
    store: directoryStore(storeDir),
    learner: {
      ...meanLearner,
      learn: (request) => {
        learned += 1;
        return dies === undefined ? meanLearner.learn(request) : Promise.reject(dies);
      },
    },
    nowMs: () => 1_000,
    beat: () => undefined,
  });
}

/** Sets of 1 and `n` GPUs, each measured at the same figure but for two sizes that lead a plain guess astray. */
const samples = (gbs: number, count = 40): readonly OrderedSample[] =>
  Array.from({ length: count }, (_, at) => ({
    gpus: [
      { host: parseHostId("c0/h0"), mask: 1 + (at % 8) },
      { host: parseHostId("c0/h1"), mask: 1 + Math.floor(at / 8) },
    ],
    gbs: gbs + (at % 2),
  }));
const order = (name: string, gbs: number, more: object = {}) => ({
  ...PLACE,
  order: name,
  samples: samples(gbs),
  seed: 1,
  ...more,
});

/** A first version by hand: the stand-in is no better than a plain guess, so it would not pass by itself. */
async function withServing(mean: number): Promise<string> {
  const { version } = await registry.add(
    modelDraft({ order: "hand" }),
    new Map([["mean", new Uint8Array([mean])]]),
  );
  await registry.publish({ version, order: "p", nowMs: 0 });
  return version;
}

describe("training", () => {
  test("writes a version that does not serve yet, with what it is and who it was held against", async () => {
    const serving = await withServing(200);
    const report = await solver().trainModel(order("t1", 100, { serving, from: serving }));
    expect(report).toMatchObject({ kind: "trained", version: "v2", gate: { holds: true } });
    expect(await registry.manifest("v2")).toMatchObject({
      parent: "v1",
      learner: "mean",
      order: "t1",
      hosts: [{ id: "c0/h0" }, { id: "c0/h1" }],
      holdout: { serving: { version: "v1" } },
    });
    expect((await registry.serving())?.version).toBe("v1");
  });

  test("one that is not better than the version that serves does not pass", async () => {
    const serving = await withServing(100);
    const report = await solver().trainModel(
      order("t1", 100, { serving, samples: [...samples(100), ...samples(200).slice(0, 8)] }),
    );
    expect(report).toMatchObject({ gate: { holds: false } });
    await expect(
      solver().publishModel({ ...PLACE, order: "p1", version: "v2" }),
    ).rejects.toMatchObject({ type: "NOT_ALLOWED" });
    expect((await registry.serving())?.version).toBe("v1");
  });

  test("an order that was done is not done again, and one that died is", async () => {
    await expect(
      solver({ dies: new Error("killed") }).trainModel(order("t1", 100)),
    ).rejects.toThrow("killed");
    expect(await registry.list()).toEqual([]);
    const first = await solver().trainModel(order("t1", 100));
    expect(await solver().trainModel(order("t1", 100))).toEqual(first);
    expect(learned).toBe(2);
  });

  test("without onnxruntime nothing fails, so that it is not tried each minute; the answer says how to install it", async () => {
    // Not below the machine's folder for temporary files, which may have packages.
    const from = pathToFileURL("/nowhere/models/x.js").href;
    let dies: unknown;
    try {
      checkOnnxruntime(from);
    } catch (error) {
      dies = error;
    }
    expect(await solver({ dies: dies as Error }).trainModel(order("t1", 100))).toMatchObject({
      kind: "too-few",
      reason: expect.stringMatching(/npm install.*orbweaver model train/) as string,
    });
    expect(await registry.list()).toEqual([]);
  });

  test("too few different sets say so", async () => {
    const few = [...samples(100, 11), ...samples(100, 11)];
    expect(await solver().trainModel(order("t1", 100, { samples: few }))).toMatchObject({
      kind: "too-few",
      reason: expect.stringMatching(/at least 12 different sets.*there are 11/),
    });
  });

  test("samples of hosts that the cluster has not are left out", async () => {
    const gone = { gpus: [{ host: parseHostId("c0/h9"), mask: 1 }], gbs: 5 };
    const big = { gpus: [{ host: parseHostId("c0/h0"), mask: 2 ** 8 }], gbs: 5 };
    await solver().trainModel(order("t1", 100, { samples: [...samples(100), gone, big] }));
    const made = await registry.manifest("v1");
    const counted = (made?.samples.count ?? 0) + (made?.holdout.own.samples ?? 0);
    expect(counted).toBe(40);
  });
});

describe("publishing", () => {
  test("a rollback that was done and not heard of is not done twice", async () => {
    await withServing(100);
    await registry.add(modelDraft({ order: "second" }), new Map([["mean", new Uint8Array([101])]]));
    await registry.publish({ version: "v2", order: "p2", nowMs: 0 });
    const back = { ...PLACE, order: "back" };
    expect(await solver().publishModel(back)).toEqual({ version: "v1", generation: 3 });
    expect(await solver().publishModel(back)).toEqual({ version: "v1", generation: 3 });
    expect(await solver().servingModel(PLACE)).toEqual({ version: "v1", generation: 3 });
  });

  test("without a former version there is nothing to roll back to", async () => {
    const failed = solver().publishModel({ ...PLACE, order: "back" });
    await expect(failed).rejects.toBeInstanceOf(ApplicationFailure);
    await expect(failed).rejects.toMatchObject({ type: "NOT_ALLOWED", nonRetryable: true });
    expect(await solver().servingModel(PLACE)).toBeNull();
  });
});

describe("judging", () => {
  test("predicts what it can, and says which it cannot", async () => {
    const version = await withServing(77);
    const gone = { gpus: [{ host: parseHostId("c0/h9"), mask: 1 }], gbs: 5 };
    const asked = [...samples(100, 1), gone, ...samples(100, 1)];
    expect(await solver().evaluationSamples({ ...PLACE, version, samples: asked })).toEqual({
      kind: "evaluated",
      predictedGbs: [77, null, 77],
    });
  });

  test("a version that is not there is unusable, and that is no failure", async () => {
    const report = await solver().evaluationSamples({ ...PLACE, version: "v9", samples: [] });
    expect(report).toMatchObject({
      kind: "unusable",
      reason: expect.stringMatching(/no version v9/),
    });
  });
});
