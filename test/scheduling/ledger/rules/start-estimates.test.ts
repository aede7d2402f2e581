/** @file The fleet's own start estimates in its ledger: whom they follow, what ends them, how many are kept, and how they are packed. */

import { describe, expect, it } from "vitest";
import { jobId, runId } from "../../../../domain/values/ids.ts";
import { apply } from "../../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../../scheduling/cycle/decide.ts";
import type { StartEstimate } from "../../../../domain/lease/start-estimate.ts";
import type { InboxEntry } from "../../../../domain/lease/inbox-entry.ts";
import {
  MAX_KEPT_ESTIMATES,
  type KeptEstimate,
} from "../../../../scheduling/ledger/rules/start-estimates.ts";
import { askedAt, estimateStarts } from "../../../../scheduling/forecast/self-forecast.ts";
import {
  ESTIMATE_PERIOD_MS,
  nextEstimateAtMs,
} from "../../../../scheduling/ledger/apply/estimate-clock.ts";
import { checkLedger } from "../../../../scheduling/ledger/rules/invariants.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import type { Ledger, RunNote } from "../../../../scheduling/ledger/ledger.ts";
import { tenantId } from "../../../../domain/values/ids.ts";
import { ask, end, fleetShape, readyLedger } from "../../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}] }]));

const notified = (ledger: Ledger, nowMs: number, ...entries: readonly InboxEntry[]): Ledger =>
  apply(ledger, { kind: "inbox", entries, nowMs }).ledger;
const decided = (ledger: Ledger, nowMs: number): Ledger =>
  apply(ledger, { kind: "plan", plan: decide(ledger, nowMs), nowMs }).ledger;

/** One job has all GPUs since 0; `waits` wants them. */
const BUSY = decided(
  notified(
    decided(notified(READY, 0, ask({ job: "runs", gpus: 8 })), 0),
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

const ownEstimates = (ledger: Ledger, askedAtMs: number, nowMs = askedAtMs): Ledger =>
  apply(ledger, { kind: "estimated", estimates: [estimateOf(ledger)], askedAtMs, nowMs }).ledger;

const OPEN: KeptEstimate = {
  askedAtMs: 10,
  fromMs: 2_000,
  medianMs: 3_000,
  toMs: Infinity,
  outcome: { kind: "waits", jobId: jobId("waits") },
};

describe("an estimate", () => {
  it("waits with its request, in whole milliseconds; what no play saw is infinite", () => {
    expect(ownEstimates(BUSY, 10).ownEstimates).toEqual([OPEN]);
  });

  it("comes out when that request is granted", () => {
    const asked = ownEstimates(BUSY, 10);
    const free = decided(notified(asked, 5_000, end("runs")), 5_000);
    expect(free.ownEstimates).toEqual([{ ...OPEN, outcome: { kind: "started", atMs: 5_000 } }]);
    expect(notified(free, 9_000, end("waits")).ownEstimates).toEqual(free.ownEstimates);
  });

  it("counts, when the job has started while the queue was played", () => {
    const estimate = estimateOf(BUSY);
    const free = decided(notified(BUSY, 5_000, end("runs")), 5_000);
    const event = { kind: "estimated", estimates: [estimate], nowMs: 6_000 } as const;
    const [got] = apply(free, { ...event, askedAtMs: 10 }).ledger.ownEstimates ?? [];
    expect(got?.outcome).toEqual({ kind: "started", atMs: 5_000 });
    expect(apply(free, { ...event, askedAtMs: 5_500 }).ledger.ownEstimates).toBeUndefined();
  });

  it.each([
    ["its job has ended", [end("waits")]],
    ["its job asks for something else", [ask({ job: "waits", gpus: 4, seq: 2 })]],
  ])("is dropped when %s", (_, entries) => {
    const after = notified(ownEstimates(BUSY, 10), 20, ...entries);
    expect(after.ownEstimates).toBeUndefined();
    expect(checkLedger(after)).toEqual([]);
  });

  it("of a request that the ledger does not have, or without a median, changes nothing", () => {
    const { fromMs: _from, medianMs: _median, ...never } = estimateOf(BUSY);
    for (const estimate of [estimateOf(BUSY, "nobody"), never]) {
      const event = { kind: "estimated", estimates: [estimate], askedAtMs: 10, nowMs: 10 } as const;
      expect(apply(BUSY, event).ledger.ownEstimates).toBeUndefined();
    }
  });
});

describe("a ledger", () => {
  it("keeps the last ones asked, started or not, and none twice as long", () => {
    let ledger = BUSY;
    for (let at = 0; at < MAX_KEPT_ESTIMATES + 10; at += 1) ledger = ownEstimates(ledger, 100 + at);
    expect(ledger.ownEstimates).toHaveLength(MAX_KEPT_ESTIMATES);
    expect(ledger.ownEstimates?.[0]?.askedAtMs).toBe(110);
    const bytes =
      JSON.stringify(packLedger(ledger)).length - JSON.stringify(packLedger(BUSY)).length;
    expect(bytes).toBeLessThan(MAX_KEPT_ESTIMATES * 40);
  });

  it("is the same when it was packed, on its way through JSON, and unpacked", () => {
    const asked = ownEstimates(ownEstimates(BUSY, 10), 20);
    const free = decided(notified(asked, 5_000, end("runs")), 5_000);
    const both = ownEstimates(notified(free, 6_000, ask({ job: "waits", gpus: 8, seq: 2 })), 6_001);
    for (const ledger of [asked, free, both]) {
      const packed = JSON.parse(JSON.stringify(packLedger(ledger))) as typeof PACKED;
      expect(unpackLedger(packed)).toEqual(ledger);
    }
  });

  it("decides alike with and without them", () => {
    const plan = decide(ownEstimates(BUSY, 10), 20);
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
    ["the next of the grid", { ...BUSY, runs }, ESTIMATE_PERIOD_MS + 5, 2 * ESTIMATE_PERIOD_MS],
    ["the next but the one it was asked at", { ...BUSY, runs }, 0, ESTIMATE_PERIOD_MS],
    ["never, while nobody waits", { ...READY, runs }, 5, Infinity],
    ["never, while runs are hardly known", { ...BUSY, runs: runs.slice(1) }, 5, Infinity],
  ])("is due at %s", (_, ledger, afterMs, want) => {
    expect(nextEstimateAtMs(ledger, afterMs)).toBe(want);
  });

  it("is about jobs that wait, drawn by lot, the same for the same time", () => {
    let ledger: Ledger = { ...BUSY, runs };
    for (let at = 0; at < 20; at += 1)
      ledger = notified(ledger, 2, ask({ job: `j${at}`, gpus: 8 }));
    expect(askedAt(ledger, 3)).toEqual(askedAt(ledger, 3));
    expect(new Set(askedAt(ledger, 3)).size).toBe(4);
    const seen = new Set(Array.from({ length: 50 }, (_, at) => askedAt(ledger, 3 + at)).flat());
    expect(seen).toEqual(new Set(ledger.requests.keys()));
  });

  it("is answered for the very requests that wait, and the answer is good for the ledger", () => {
    const ledger: Ledger = { ...BUSY, runs };
    const estimates = estimateStarts(ledger, 3);
    expect(estimates.map(({ request }) => request)).toEqual([estimateOf(ledger).request]);
    const event = { kind: "estimated", estimates, askedAtMs: 3, nowMs: 3 } as const;
    const [kept] = apply(ledger, event).ledger.ownEstimates ?? [];
    expect(kept?.outcome).toEqual({ kind: "waits", jobId: "waits" });
    expect(kept?.medianMs).toBeGreaterThan(30_000);
    expect(kept?.medianMs).toBeLessThan(120_000);
  });
});
