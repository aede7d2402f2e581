/** @file The fleet's own start estimates in its ledger: whom they follow, what ends them, how many are kept, and how they are packed. */

import { describe, expect, it } from "vitest";
import { jobId, runId } from "../../domain/ids.ts";
import { apply } from "../../scheduling/apply.ts";
import { decide } from "../../scheduling/decide.ts";
import { MAX_FORESEEN, type Foreseen, type StartEstimate } from "../../scheduling/foreseen.ts";
import { askedAt, foresee } from "../../scheduling/foresight.ts";
import { FORESIGHT_PERIOD_MS, nextForesightAtMs } from "../../scheduling/foresight-clock.ts";
import { checkLedger } from "../../scheduling/invariants.ts";
import { packLedger, unpackLedger } from "../../scheduling/ledger-codec.ts";
import type { InboxEntry, Ledger, RunNote } from "../../scheduling/ledger.ts";
import { tenantId } from "../../domain/ids.ts";
import { ask, end, fleetShape, readyLedger } from "./builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}] }]));

const told = (ledger: Ledger, nowMs: number, ...entries: readonly InboxEntry[]): Ledger =>
  apply(ledger, { kind: "inbox", entries, nowMs }).ledger;
const decided = (ledger: Ledger, nowMs: number): Ledger =>
  apply(ledger, { kind: "plan", plan: decide(ledger, nowMs), nowMs }).ledger;

/** One job has all GPUs since 0; `waits` wants them. */
const BUSY = decided(
  told(
    decided(told(READY, 0, ask({ job: "runs", gpus: 8 })), 0),
    1,
    ask({ job: "waits", gpus: 8 }),
  ),
  1,
);

function estimateOf(ledger: Ledger, job = "waits"): StartEstimate {
  const request = ledger.requests.get(jobId(job));
  const { seq } = request ?? { seq: 1 };
  return {
    request: { jobId: jobId(job), runId: request?.runId ?? runId("run"), seq },
    fromMs: 2_000,
    medianMs: 3_000.4,
  };
}

const foreseen = (ledger: Ledger, askedAtMs: number, nowMs = askedAtMs): Ledger =>
  apply(ledger, { kind: "foreseen", estimates: [estimateOf(ledger)], askedAtMs, nowMs }).ledger;

const OPEN: Foreseen = {
  askedAtMs: 10,
  fromMs: 2_000,
  medianMs: 3_000,
  toMs: Infinity,
  outcome: { kind: "waits", jobId: jobId("waits") },
};

describe("an estimate", () => {
  it("waits with its request, in whole milliseconds; what no play saw is infinite", () => {
    expect(foreseen(BUSY, 10).foreseen).toEqual([OPEN]);
  });

  it("comes out when that request is granted", () => {
    const asked = foreseen(BUSY, 10);
    const free = decided(told(asked, 5_000, end("runs")), 5_000);
    expect(free.foreseen).toEqual([{ ...OPEN, outcome: { kind: "started", atMs: 5_000 } }]);
    expect(told(free, 9_000, end("waits")).foreseen).toEqual(free.foreseen);
  });

  it("counts, when the job has started while the queue was played", () => {
    const estimate = estimateOf(BUSY);
    const free = decided(told(BUSY, 5_000, end("runs")), 5_000);
    const event = { kind: "foreseen", estimates: [estimate], nowMs: 6_000 } as const;
    const [got] = apply(free, { ...event, askedAtMs: 10 }).ledger.foreseen ?? [];
    expect(got?.outcome).toEqual({ kind: "started", atMs: 5_000 });
    expect(apply(free, { ...event, askedAtMs: 5_500 }).ledger.foreseen).toBeUndefined();
  });

  it.each([
    ["its job has ended", [end("waits")]],
    ["its job asks for something else", [ask({ job: "waits", gpus: 4, seq: 2 })]],
  ])("is dropped when %s", (_, entries) => {
    const after = told(foreseen(BUSY, 10), 20, ...entries);
    expect(after.foreseen).toBeUndefined();
    expect(checkLedger(after)).toEqual([]);
  });

  it("of a request that the ledger does not have, or without a median, changes nothing", () => {
    const { fromMs: _from, medianMs: _median, ...never } = estimateOf(BUSY);
    for (const estimate of [estimateOf(BUSY, "nobody"), never]) {
      const event = { kind: "foreseen", estimates: [estimate], askedAtMs: 10, nowMs: 10 } as const;
      expect(apply(BUSY, event).ledger.foreseen).toBeUndefined();
    }
  });
});

describe("a ledger", () => {
  it("keeps the last ones asked, started or not, and none twice as long", () => {
    let ledger = BUSY;
    for (let at = 0; at < MAX_FORESEEN + 10; at += 1) ledger = foreseen(ledger, 100 + at);
    expect(ledger.foreseen).toHaveLength(MAX_FORESEEN);
    expect(ledger.foreseen?.[0]?.askedAtMs).toBe(110);
    const bytes =
      JSON.stringify(packLedger(ledger)).length - JSON.stringify(packLedger(BUSY)).length;
    expect(bytes).toBeLessThan(MAX_FORESEEN * 40);
  });

  it("is the same when it was packed, on its way through JSON, and unpacked", () => {
    const asked = foreseen(foreseen(BUSY, 10), 20);
    const free = decided(told(asked, 5_000, end("runs")), 5_000);
    const both = foreseen(told(free, 6_000, ask({ job: "waits", gpus: 8, seq: 2 })), 6_001);
    for (const ledger of [asked, free, both]) {
      const packed = JSON.parse(JSON.stringify(packLedger(ledger))) as typeof PACKED;
      expect(unpackLedger(packed)).toEqual(ledger);
    }
  });

  it("decides alike with and without them", () => {
    const plan = decide(foreseen(BUSY, 10), 20);
    expect(plan).toEqual(decide(BUSY, 20));
  });
});
const PACKED = packLedger(BUSY);

describe("what a fleet asks itself", () => {
  const note: RunNote = {
    class: "training",
    tenant: tenantId("t"),
    gpus: 8,
    submittedAtMs: 0,
    grantedAtMs: 0,
    endedAtMs: 60_000,
  };
  const runs = Array.from({ length: 8 }, () => note);

  it.each([
    ["the next of the grid", { ...BUSY, runs }, FORESIGHT_PERIOD_MS + 5, 2 * FORESIGHT_PERIOD_MS],
    ["the next but the one it was asked at", { ...BUSY, runs }, 0, FORESIGHT_PERIOD_MS],
    ["never, while nobody waits", { ...READY, runs }, 5, Infinity],
    ["never, while runs are hardly known", { ...BUSY, runs: runs.slice(1) }, 5, Infinity],
  ])("is due at %s", (_, ledger, afterMs, want) => {
    expect(nextForesightAtMs(ledger, afterMs)).toBe(want);
  });

  it("is about jobs that wait, drawn by lot, the same for the same time", () => {
    let ledger: Ledger = { ...BUSY, runs };
    for (let at = 0; at < 20; at += 1) ledger = told(ledger, 2, ask({ job: `j${at}`, gpus: 8 }));
    expect(askedAt(ledger, 3)).toEqual(askedAt(ledger, 3));
    expect(new Set(askedAt(ledger, 3)).size).toBe(4);
    const seen = new Set(Array.from({ length: 50 }, (_, at) => askedAt(ledger, 3 + at)).flat());
    expect(seen).toEqual(new Set(ledger.requests.keys()));
  });

  it("is answered for the very requests that wait, and the answer is good for the ledger", () => {
    const ledger: Ledger = { ...BUSY, runs };
    const estimates = foresee(ledger, 3);
    expect(estimates.map(({ request }) => request)).toEqual([estimateOf(ledger).request]);
    const event = { kind: "foreseen", estimates, askedAtMs: 3, nowMs: 3 } as const;
    const [kept] = apply(ledger, event).ledger.foreseen ?? [];
    expect(kept?.outcome).toEqual({ kind: "waits", jobId: "waits" });
    expect(kept?.medianMs).toBeGreaterThan(30_000);
    expect(kept?.medianMs).toBeLessThan(120_000);
  });
});
