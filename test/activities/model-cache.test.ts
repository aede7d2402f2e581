/** @file The shelf of opened models: opened once, anew when something changes, and a reason where one cannot be used. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createModelCache, type ModelCache } from "../../activities/model-cache.ts";
import { clusterId } from "../../domain/values/ids.ts";
import { modelDirOf, openRegistry } from "../../models/bandwidth/registry.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { fleetShape, inbox, readyLedger } from "../scheduling/builders.ts";
import { meanLearner, modelDraft } from "./stand-in-learner.ts";

const C0 = clusterId("c0");
const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
const serving = (version: string, generation: number, from: Ledger = READY): Ledger =>
  inbox(from, [{ kind: "model", cluster: "c0", version, generation }]).ledger;

let storeDir = "";
let modelCache: ModelCache;
let opened = 0;
let now = 0;
beforeEach(async () => {
  storeDir = await mkdtemp(path.join(tmpdir(), "orbweaver-shelf-"));
  const registry = openRegistry(modelDirOf(storeDir, "c0"));
  for (const mean of [10, 20])
    await registry.add(
      modelDraft({ order: String(mean) }),
      new Map([["mean", new Uint8Array([mean])]]),
    );
  opened = 0;
  now = 0;
  const learner = {
    ...meanLearner,
    open: (...args: Parameters<typeof meanLearner.open>) => {
      opened += 1;
      return meanLearner.open(...args);
    },
  };
  modelCache = createModelCache(storeDir, {
    learner: () => Promise.resolve(learner),
    nowMs: () => now,
  });
});
afterEach(() => rm(storeDir, { recursive: true, force: true }));

const predictor = async (ledger: Ledger) => (await modelCache.predictorsFor(ledger, new Map()))(C0);
const SHARES = [
  [
    { host: 0, mask: 1 },
    { host: 1, mask: 1 },
  ],
];

test("a version is opened once, and predicts on the hosts of the snapshot", async () => {
  const first = await predictor(serving("v1", 1));
  expect(first?.predict(SHARES)).toEqual([10]);
  expect(first?.domain.hosts.map(({ id }) => id)).toEqual(["c0/h0", "c0/h1"]);
  expect(await predictor(serving("v1", 1))).toBe(first);
  expect(opened).toBe(1);
});

test("another version takes its place", async () => {
  await predictor(serving("v1", 1));
  const next = await predictor(serving("v2", 2));
  expect([next?.version, next?.predict(SHARES)]).toEqual(["v2", [20]]);
});

test("other hosts or tables open it anew", async () => {
  const ledger = serving("v1", 1);
  await predictor(ledger);
  await predictor({ ...ledger, detailsHash: "other" });
  await predictor({ ...ledger, shape: fleetShape([{ hosts: [{}, {}, {}] }]) });
  expect(opened).toBe(3);
});

test("a cluster without a model has none, and that is no failure", async () => {
  const predictorOf = await modelCache.predictorsFor(READY, new Map());
  expect(predictorOf(C0)).toBeUndefined();
});

test("a version that is missing or damaged throws its reason when it is asked for, and is tried again later", async () => {
  const gone = await modelCache.predictorsFor(serving("v9", 1), new Map());
  expect(() => gone(C0)).toThrow(/model v9 cannot be used: there is no v9/);
  const file = path.join(modelDirOf(storeDir, "c0"), "v1", "mean");
  await writeFile(file, "junk");
  const ledger = serving("v1", 1);
  const damaged = await modelCache.predictorsFor(ledger, new Map());
  expect(() => damaged(C0)).toThrow(/mean is damaged/);
  await writeFile(file, new Uint8Array([10]));
  const soon = await modelCache.predictorsFor(ledger, new Map());
  expect(() => soon(C0)).toThrow(/mean is damaged/);
  now = 30_000;
  expect((await predictor(ledger))?.predict(SHARES)).toEqual([10]);
});
