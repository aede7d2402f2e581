/** @file Run times drawn from past and running jobs: the pool that counts, running jobs, limits, and nothing known at all. */

import { describe, expect, it } from "vitest";
import { tenantId } from "../../../domain/values/ids.ts";
import { randomFrom } from "../../../lib/random.ts";
import { MIN_RUNS, runTimesOf } from "../../../scheduling/estimates/run-times.ts";
import type { RunNote } from "../../../scheduling/ledger/ledger.ts";
import { fleetShape, gpus, leased, readyLedger } from "../builders.ts";

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

describe("runs that go on", () => {
  it("count for as long as they have lasted: half of all outlive what has ended", () => {
    const ledger = Array.from({ length: MIN_RUNS }, (_, at) => at).reduce(
      (held, at) => leased(held, { job: `j${at}` }, gpus(["c0/h0", 1 << at])),
      readyLedger(fleetShape([{ hosts: [{}] }])),
    );
    const short = Array.from({ length: MIN_RUNS }, () => note({ ranMs: MINUTE_MS }));
    const times = runTimesOf(short, { running: ledger.leases.values(), nowMs: 60 * MINUTE_MS });
    const random = randomFrom(7);
    const kind = { class: "training", gpus: 1 } as const;
    const draws = Array.from({ length: 1_000 }, () => times.remainingMs(kind, 0, random));
    const longer = draws.filter((drawMs) => drawMs > MINUTE_MS);
    expect(longer.length / 1_000).toBeCloseTo(0.5, 1);
    expect(Math.min(...longer)).toBeGreaterThanOrEqual(60 * MINUTE_MS);
  });
});

it("resampled notes are drawn from the notes alone", () => {
  const notes = [1, 2, 3, 4, 5, 6, 7, 8].map((at) => note({ ranMs: at * MINUTE_MS }));
  const times = runTimesOf(notes, { resampling: randomFrom(3) });
  const random = randomFrom(7);
  const known = new Set(notes.map(({ endedAtMs }) => endedAtMs));
  for (let draw = 0; draw < 50; draw += 1)
    expect(known).toContain(times.remainingMs({ class: "training", gpus: 1 }, 0, random));
});
