/** @file The decider: an overdue thread is stood in for, not thrown away; a dead one is replaced. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createDecider, DECIDE_DEADLINE_MS, type Decider } from "../../activities/decider.ts";
import { packLedger } from "../../scheduling/ledger-codec.ts";
import { fleetShape, readyLedger } from "../scheduling/builders.ts";

/** Waits for as long as the question's `nowMs` says, dies of −1, and counts its answers in `candidates`. */
const THREAD = `
import { parentPort } from "node:worker_threads";
let answers = 0;
parentPort.on("message", ({ id, nowMs }) => {
  if (nowMs < 0) process.exit(1);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, nowMs);
  answers += 1;
  const stats = { method: "decide", candidates: answers };
  parentPort.postMessage({ id, plan: { items: [], pending: [], stats } });
});
`;
const LATE_MS = 2 * DECIDE_DEADLINE_MS;
const snapshot = packLedger(readyLedger(fleetShape([{}])));

let dir: string;
let decider: Decider;
const fallbacks: string[] = [];

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-decider-"));
  const threadFile = join(dir, "thread.mjs");
  writeFileSync(threadFile, THREAD);
  decider = createDecider({
    storeDir: dir,
    threadFile,
    onFallback: (reason) => fallbacks.push(reason),
  });
});
afterAll(async () => {
  await decider.close();
  rmSync(dir, { recursive: true, force: true });
});

const ask = async (forMs: number): Promise<readonly [method: string, answers: number]> => {
  const { stats } = await decider.decide(snapshot, forMs);
  return [stats.method, stats.candidates];
};

test("a thread that overran keeps what it has loaded and answers again as soon as it is done", async () => {
  expect(await ask(0)).toEqual(["decide", 1]);
  const [[late], [meanwhile]] = [await ask(LATE_MS), await ask(0)];
  expect([late, meanwhile]).toEqual(["baseline", "baseline"]);
  expect(fallbacks).toEqual([
    `no plan within ${DECIDE_DEADLINE_MS} ms`,
    "the last question has not been answered yet",
  ]);
  for (let answer = await ask(0); ; answer = await ask(0)) {
    if (answer[0] === "decide") {
      // Two answers before this one: the thread is the same.
      expect(answer[1]).toBe(3);
      break;
    }
    await sleep(20);
  }
});

test("a thread that died is replaced", async () => {
  expect((await ask(-1))[0]).toBe("baseline");
  expect(await ask(0)).toEqual(["decide", 1]);
});
