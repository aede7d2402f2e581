/** @file Start estimates: the times that they are drawn from, and what playing the queue forward says of simple queues. */

import { describe, expect, it } from "vitest";
import { jobId, tenantId } from "../../domain/ids.ts";
import { ms } from "../../domain/units.ts";
import { randomFrom } from "../../lib/random.ts";
import { apply, emptyLedger } from "../../scheduling/apply.ts";
import { arrivalsOf } from "../../scheduling/arrivals.ts";
import { stretched } from "../../scheduling/calibration.ts";
import { decide } from "../../scheduling/decide.ts";
import { forecast, playForward } from "../../scheduling/forecast.ts";
import type { Foreseen } from "../../scheduling/foreseen.ts";
import type { InboxEntry, Ledger, RunNote } from "../../scheduling/ledger.ts";
import { MIN_RUNS, runTimesOf } from "../../scheduling/run-times.ts";
import { ask, end, fleetShape, hello, type RequestSpec } from "./builders.ts";

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

/** The middle of many draws. */
function medianOf(
  notes: readonly RunNote[],
  kind: Parameters<ReturnType<typeof runTimesOf>["remainingMs"]>[0],
  ranMs: number,
): number {
  const random = randomFrom(7);
  const times = runTimesOf(notes);
  const draws = Array.from({ length: 999 }, () => times.remainingMs(kind, ranMs, random));
  return draws.sort((a, b) => a - b)[499] ?? 0;
}

describe("a run time", () => {
  const short = Array.from({ length: MIN_RUNS }, () => note({ ranMs: MINUTE_MS }));
  const long = Array.from({ length: MIN_RUNS }, () => note({ ranMs: 60 * MINUTE_MS, gpus: 8 }));
  const kind = { class: "training", gpus: 1 } as const;

  it.each([
    ["that of jobs of its class and size", [...short, ...long], kind, 0, MINUTE_MS],
    ["that of other sizes", [...short, ...long], { ...kind, gpus: 15 }, 0, 60 * MINUTE_MS],
    ["that of its class, where nobody is of its size", short, { ...kind, gpus: 64 }, 0, MINUTE_MS],
    [
      "that of any class, where there is none of its own",
      short,
      { ...kind, class: "inference" as const },
      0,
      MINUTE_MS,
    ],
    [
      "of those that lasted longer than it ran already",
      [...short, ...long],
      kind,
      5 * MINUTE_MS,
      55 * MINUTE_MS,
    ],
    ["no longer than its time limit", long, { ...kind, timeLimitMs: 90_000 }, 60_000, 30_000],
  ] as const)("is %s", (_, notes, of, ranMs, want) => {
    expect(medianOf(notes, of, ranMs)).toBe(want);
  });

  it("nobody has ever reached is as long again, in the median", () => {
    expect(medianOf(short, kind, 10 * MINUTE_MS) / (10 * MINUTE_MS)).toBeCloseTo(1, 0);
  });

  it.each([
    { unit: 0.25, title: "as long again as it ran", wantMinutes: 1 },
    { unit: 0.75, title: "half of what its limit leaves it", wantMinutes: 30 },
    { unit: 0.95, title: "nine tenths of that", wantMinutes: 54 },
  ])("nobody knows anything of, at $unit of the chance: $title", ({ unit, wantMinutes }) => {
    const limited = { ...kind, timeLimitMs: 61 * MINUTE_MS };
    const random = { ...randomFrom(1, "test"), unit: () => unit };
    const leftMs = runTimesOf([]).remainingMs(limited, MINUTE_MS, random);
    expect(leftMs / MINUTE_MS).toBeCloseTo(wantMinutes, 6);
  });
});

const START: Ledger = apply(emptyLedger(fleetShape([{ hosts: [{}] }])), {
  kind: "inbox",
  entries: [hello(["c0/h0"])],
  nowMs: 0,
}).ledger;

function after(ledger: Ledger, nowMs: number, ...entries: readonly InboxEntry[]): Ledger {
  const told = apply(ledger, { kind: "inbox", entries, nowMs }).ledger;
  return apply(told, { kind: "plan", plan: decide(told, nowMs), nowMs }).ledger;
}

const job = (name: string, spec: RequestSpec = {}): InboxEntry =>
  ask({ job: name, gpus: 8, ...spec });

describe("runs that go on", () => {
  it("count for as long as they have lasted: half of all outlive what has ended", () => {
    let ledger = START;
    for (let at = 0; at < MIN_RUNS; at += 1) ledger = after(ledger, 0, ask({ job: `j${at}` }));
    const short = Array.from({ length: MIN_RUNS }, () => note({ ranMs: MINUTE_MS }));
    const times = runTimesOf(short, ledger.leases.values(), 60 * MINUTE_MS);
    const random = randomFrom(7);
    const kind = { class: "training", gpus: 1 } as const;
    const draws = Array.from({ length: 1_000 }, () => times.remainingMs(kind, 0, random));
    const longer = draws.filter((drawMs) => drawMs > MINUTE_MS);
    expect(longer.length / 1_000).toBeCloseTo(0.5, 1);
    expect(Math.min(...longer)).toBeGreaterThanOrEqual(60 * MINUTE_MS);
  });
});

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

  it("tells what the plays say, stretched", () => {
    const options = { nowMs: 2, samples: 10 };
    const [told] = forecast(busy, [jobId("waits")], options);
    const [played] = playForward(busy, [jobId("waits")], options);
    expect(told).toEqual(played === undefined ? undefined : stretched(played, 2));
    expect(told?.learned).toBe(0);
  });

  it("is stretched by what became of the fleet's own estimates", () => {
    const late: Foreseen = {
      askedAtMs: 0,
      fromMs: MINUTE_MS,
      medianMs: MINUTE_MS,
      toMs: MINUTE_MS,
      outcome: { kind: "started", atMs: 1_000 * MINUTE_MS },
    };
    const ledger = { ...busy, foreseen: Array.from({ length: 60 }, () => late) };
    const options = { nowMs: 2, samples: 10 };
    const [young] = forecast(busy, [jobId("waits")], options);
    const [told] = forecast(ledger, [jobId("waits")], options);
    expect(told?.learned).toBe(60);
    expect(told?.medianMs).toBeGreaterThan(3 * (young?.medianMs ?? NaN));
    expect(told?.toMs).toBeGreaterThan(3 * (young?.toMs ?? NaN));
    expect(told?.fromMs).toBeGreaterThan(young?.fromMs ?? NaN);
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
