/** @file Estimates in a thread of their own: its answer comes through, its end is an error, and a cancelled one is gone. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { playApart } from "../../activities/start-estimator.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { fleetShape, readyLedger } from "../scheduling/builders.ts";

/** Answers, throws, ends or waits for ever, as the time of the question says. */
const THREAD = `
import { parentPort, workerData } from "node:worker_threads";
const { nowMs, snapshot } = workerData;
if (nowMs === 1) parentPort.postMessage([{ request: { jobId: snapshot.shape.clusters[0].id } }]);
if (nowMs === 2) throw new Error("no such queue");
if (nowMs === 3) process.exit(7);
parentPort.on("message", () => undefined);
`;
const snapshot = packLedger(readyLedger(fleetShape([{}])));
const never = new Promise<never>(() => undefined);

let dir: string;
let threadFile: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-foresight-"));
  threadFile = join(dir, "thread.mjs");
  writeFileSync(threadFile, THREAD);
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("the thread has the ledger, and what it answers is the answer", async () => {
  expect(await playApart({ snapshot, nowMs: 1 }, never, threadFile)).toEqual([
    { request: { jobId: "c0" } },
  ]);
});

test.each([
  ["throws", 2, /no such queue/],
  ["ends without an answer", 3, /exit code 7/],
])("a thread that %s is an error", async (_, nowMs, want) => {
  await expect(playApart({ snapshot, nowMs }, never, threadFile)).rejects.toThrow(want);
});

test("one that is cancelled is not waited for", async () => {
  const cancelled = Promise.reject<never>(new Error("cancelled"));
  await expect(playApart({ snapshot, nowMs: 4 }, cancelled, threadFile)).rejects.toThrow(
    "cancelled",
  );
});
