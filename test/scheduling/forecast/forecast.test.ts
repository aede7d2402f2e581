/** @file Forecasts: arrivals, and the starts that playing the queue forward gives for simple queues. */

import { describe, expect, it } from "vitest";
import { jobId, tenantId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { randomFrom } from "../../../lib/random.ts";
import { apply, emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { arrivalsOf } from "../../../scheduling/estimates/arrival-rates.ts";
import { stretched, withWait } from "../../../scheduling/estimates/interval-calibration.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { forecast, playForward } from "../../../scheduling/forecast/forecast.ts";
import type { KeptEstimate } from "../../../scheduling/ledger/rules/start-estimates.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import type { Ledger, RunNote } from "../../../scheduling/ledger/ledger.ts";
import { ask, end, fleetShape, hello, type RequestSpec } from "../builders.ts";

const MINUTE_MS = 60_000;

const note = (change: Partial<RunNote> & { readonly ranMs: number }): RunNote => {
  const { ranMs, ...rest } = change;
  return {
    class: "training",
    tenant: tenantId("t"),
    gpus: 1,
    submittedAtMs: 0,
    grantedAtMs: 0,
    endedAtMs: ranMs,
    ...rest,
  };
};

const START: Ledger = apply(emptyLedger(fleetShape([{ hosts: [{}] }])), {
  kind: "inbox",
  entries: [hello(["c0/h0"])],
  nowMs: 0,
}).ledger;

function after(ledger: Ledger, nowMs: number, ...entries: readonly InboxEntry[]): Ledger {
  const notified = apply(ledger, { kind: "inbox", entries, nowMs }).ledger;
  return apply(notified, { kind: "plan", plan: decide(notified, nowMs), nowMs }).ledger;
}

const job = (name: string, spec: RequestSpec = {}): InboxEntry =>
  ask({ job: name, gpus: 8, ...spec });

describe("a forecast", () => {
  const notes = Array.from({ length: 50 }, (_, at) =>
    note({ ranMs: (at + 1) * MINUTE_MS, gpus: 8, submittedAtMs: 1e9 + at, grantedAtMs: 0 }),
  );
  /** One that runs since the beginning, one that waits; every run so far lasted 1 to 50 minutes. */
  const busy: Ledger = { ...after(after(START, 0, job("runs")), 1, job("waits")), runs: notes };

  it("of a job that waits for one other is the time that such jobs take", () => {
    const [found] = playForward(busy, [jobId("waits")], { nowMs: 2, samples: 200 });
    const inMinutes = (atMs = NaN): number => (atMs - 2) / MINUTE_MS;
    expect(inMinutes(found?.fromMs)).toBeGreaterThan(2);
    expect(inMinutes(found?.fromMs)).toBeLessThan(9);
    expect(inMinutes(found?.medianMs)).toBeGreaterThan(20);
    expect(inMinutes(found?.medianMs)).toBeLessThan(31);
    expect(inMinutes(found?.toMs)).toBeGreaterThan(41);
    expect(inMinutes(found?.toMs)).toBeLessThan(52);
  });

  it("tells what the plays and the wait say, stretched", () => {
    const options = { nowMs: 2, samples: 10 };
    const [notified] = forecast(busy, [jobId("waits")], options);
    const [played] = playForward(busy, [jobId("waits")], options);
    const waited = played && withWait(played, { requestedAtMs: 1 }, 2);
    expect(notified).toEqual(waited && stretched(waited, 2));
    expect(notified?.learned).toBe(0);
  });

  it("is stretched by what became of the fleet's own estimates", () => {
    const late: KeptEstimate = {
      askedAtMs: 0,
      fromMs: MINUTE_MS,
      medianMs: MINUTE_MS,
      toMs: MINUTE_MS,
      outcome: { kind: "started", atMs: 1_000 * MINUTE_MS },
    };
    const ledger = { ...busy, ownEstimates: Array.from({ length: 60 }, () => late) };
    const options = { nowMs: 2, samples: 10 };
    const [young] = forecast(busy, [jobId("waits")], options);
    const [notified] = forecast(ledger, [jobId("waits")], options);
    expect(notified?.learned).toBe(60);
    expect(notified?.medianMs).toBeGreaterThan(3 * (young?.medianMs ?? NaN));
    expect(notified?.toMs).toBeGreaterThan(3 * (young?.toMs ?? NaN));
    expect(notified?.fromMs).toBeGreaterThan(young?.fromMs ?? NaN);
  });

  it("is the same for the same seed, and leaves the ledger as it was", () => {
    const before = JSON.stringify([...busy.requests, ...busy.leases]);
    const options = { nowMs: 2, samples: 10 };
    const first = forecast(busy, [jobId("waits")], { ...options, seed: 3 });
    expect(forecast(busy, [jobId("waits")], { ...options, seed: 3 })).toEqual(first);
    expect(forecast(busy, [jobId("waits")], { ...options, seed: 4 })).not.toEqual(first);
    expect(JSON.stringify([...busy.requests, ...busy.leases])).toBe(before);
  });

  it("knows a time limit", () => {
    const limited = { timeLimitMs: ms(10 * MINUTE_MS) };
    const ledger = {
      ...after(after(START, 0, job("runs", limited)), 1, job("waits")),
      runs: notes,
    };
    const [found] = playForward(ledger, [jobId("waits")], { nowMs: 2 });
    expect((found?.toMs ?? NaN) / MINUTE_MS).toBeLessThan(11);
  });

  it("of a job that never fits is never, and of one that does not wait there is none", () => {
    const ledger = after(busy, 2, job("huge", { gpus: 9 }));
    const [found, ...others] = forecast(ledger, [jobId("huge"), jobId("runs")], {
      nowMs: 3,
      samples: 5,
    });
    expect([found?.jobId, found?.fromMs, others]).toEqual([jobId("huge"), Infinity, []]);
  });
});

describe("arrivals to come", () => {
  it("are as often as they were, of those that came", () => {
    let ledger = START;
    for (let at = 0; at < 20; at += 1) {
      ledger = after(ledger, 1_000 * at, ask({ job: `j${at}`, submittedAtMs: 1_000 * at }));
      ledger = after(ledger, 1_000 * at + 500, end(`j${at}`));
    }
    const [stream, ...others] = arrivalsOf(ledger, 20_000);
    expect(others).toEqual([]);
    expect(stream?.meanMs).toBe(1_000);
    expect(stream?.draw(randomFrom(1))).toEqual({ class: "training", tenant: "t", gpus: 1 });
    const random = randomFrom(1);
    const lasts = Array.from({ length: 999 }, () => stream?.lastsMs(random) ?? NaN);
    const middle = lasts.sort((a, b) => a - b)[499] ?? NaN;
    expect(middle / 20_000).toBeCloseTo(1, 0);
  });
});
