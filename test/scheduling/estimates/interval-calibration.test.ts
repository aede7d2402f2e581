/**
 * @file The interval of a start estimate: stretched about its median, monotone in the wanted coverage, right as often as wanted, and right
 * again some time after the workload has changed.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import {
  FITTED,
  learnedStretch,
  meanStart,
  scoreOf,
  stretched,
  stretchOf,
  withWait,
  type Score,
} from "../../../scheduling/estimates/interval-calibration.ts";
import {
  MAX_KEPT_ESTIMATES,
  type KeptEstimate,
  type Interval,
} from "../../../scheduling/ledger/rules/start-estimates.ts";

const NOW_MS = 1_000_000;

const intervals = fc
  .tuple(
    fc.integer({ min: 0, max: 1e9 }),
    fc.integer({ min: 0, max: 1e9 }),
    fc.integer({ min: 0, max: 1e9 }),
  )
  .map((times): Interval => {
    const [fromMs = 0, medianMs = 0, toMs = 0] = [...times]
      .sort((a, b) => a - b)
      .map((time) => NOW_MS + time);
    return { fromMs, medianMs, toMs };
  });
const scores = fc.array(
  fc.record({
    off: fc.double({ min: -20, max: 20, noNaN: true }),
    isOpen: fc.boolean(),
  }),
  { maxLength: 60 },
);

const started = (off: number): Score => ({ off });

/** A stream of questions whose plays are too sure of themselves, the same at any time. */
function streamOf(seed: number, count: number): readonly { notified: Interval; startMs: number }[] {
  const random = randomFrom(seed);
  return Array.from({ length: count }, () => {
    const medianMs = NOW_MS + 3_600_000 * Math.exp(random.normal());
    const waitMs = medianMs - NOW_MS;
    const notified = { fromMs: NOW_MS + waitMs / 1.2, medianMs, toMs: NOW_MS + waitMs * 1.3 };
    return { notified, startMs: NOW_MS + waitMs * Math.exp(0.3 + 1.1 * random.normal()) };
  });
}

const isWithin = ({ fromMs, toMs }: Interval, startMs: number): boolean =>
  startMs >= fromMs && startMs <= toMs;

describe("a stretched interval", () => {
  it("contains its median and begins no sooner than now", () => {
    fc.assert(
      fc.property(intervals, scores, (notified, seen) => {
        const { fromMs, medianMs, toMs } = stretched(notified, NOW_MS, stretchOf(seen));
        expect(fromMs).toBeLessThanOrEqual(medianMs);
        expect(toMs).toBeGreaterThanOrEqual(medianMs);
        expect(fromMs).toBeGreaterThanOrEqual(NOW_MS);
      }),
    );
  });

  it("is no narrower for a greater coverage", () => {
    const shares = fc.double({ min: 0.05, max: 0.99, noNaN: true });
    fc.assert(
      fc.property(intervals, scores, shares, shares, (notified, seen, one, other) => {
        const narrow = stretched(notified, NOW_MS, stretchOf(seen, Math.min(one, other)));
        const wide = stretched(notified, NOW_MS, stretchOf(seen, Math.max(one, other)));
        expect(wide.fromMs).toBeLessThanOrEqual(narrow.fromMs);
        expect(wide.toMs).toBeGreaterThanOrEqual(narrow.toMs);
      }),
    );
  });

  it("reaches as far as the start that was scored", () => {
    fc.assert(
      fc.property(intervals, fc.integer({ min: 0, max: 1e9 }), (notified, waitMs) => {
        const startMs = NOW_MS + waitMs;
        const score = scoreOf(notified, { nowMs: NOW_MS, startMs }) ?? NaN;
        const { fromMs, toMs } = stretched(notified, NOW_MS, stretchOf([started(score)]));
        const slackMs = 1e-6 * (waitMs + 10_000);
        expect(fromMs - slackMs).toBeLessThanOrEqual(startMs);
        expect(toMs + slackMs).toBeGreaterThanOrEqual(startMs);
      }),
    );
  });

  it.each([
    [
      "without an end, where a tenth of the plays had none",
      { fromMs: 2e6, medianMs: 3e6, toMs: Infinity },
      Infinity,
    ],
    [
      "as it was, where most plays saw no start",
      { fromMs: 2e6, medianMs: Infinity, toMs: Infinity },
      Infinity,
    ],
  ])("is %s", (_, notified, wantToMs) => {
    const got = stretched(notified, NOW_MS, { from: -3, median: 0, to: 3 });
    expect(got.toMs).toBe(wantToMs);
    expect(got.medianMs).toBe(notified.medianMs);
    expect(got.fromMs).toBeLessThanOrEqual(notified.fromMs);
  });
});

describe("an estimate with the wait so far", () => {
  const HOUR_MS = 3_600_000;
  const played = {
    fromMs: NOW_MS,
    medianMs: NOW_MS + HOUR_MS,
    meanMs: NOW_MS + 2 * HOUR_MS,
    toMs: NOW_MS + 8 * HOUR_MS,
  };
  const hoursFor = (waitedMs: number): number => {
    const { medianMs } = withWait(played, { requestedAtMs: NOW_MS - waitedMs }, NOW_MS);
    return (medianMs - NOW_MS) / HOUR_MS;
  };

  it("is the mean of the plays for a job that has just come, and later for one that has waited for longer than that", () => {
    expect(hoursFor(0)).toBeCloseTo(2, 1);
    expect(hoursFor(HOUR_MS)).toBeCloseTo(2, 1);
    expect(hoursFor(54 * HOUR_MS)).toBeCloseTo(6, 1);
  });

  it("keeps its order where the wait is longer than all plays, and stays as it is where most plays saw no start", () => {
    const day = { requestedAtMs: NOW_MS - 1_000 * HOUR_MS };
    const { fromMs, medianMs, toMs } = withWait(played, day, NOW_MS);
    expect([fromMs, medianMs, toMs]).toEqual([fromMs, medianMs, toMs].sort((a, b) => a - b));
    const none = { fromMs: NOW_MS, medianMs: Infinity, toMs: Infinity };
    expect(withWait({ ...none, meanMs: 2 * NOW_MS }, day, NOW_MS)).toEqual(none);
  });
});

describe("the mean of plays' starts", () => {
  const MINUTE_MS = 60_000;
  const DAY_MS = 86_400_000;

  it.each([
    ["of one play is its start", [MINUTE_MS], MINUTE_MS],
    ["is geometric", [9 * MINUTE_MS, 100 * MINUTE_MS], 30 * MINUTE_MS],
    ["counts a play without a start as one at the horizon", [Infinity], 30 * DAY_MS],
    ["counts a start that is past as now", [-MINUTE_MS], 0],
  ])("%s", (_, waitsMs, wantMs) => {
    const starts = waitsMs.map((waitMs) => NOW_MS + waitMs);
    expect((meanStart(starts, NOW_MS) - NOW_MS) / MINUTE_MS).toBeCloseTo(wantMs / MINUTE_MS, 0);
  });

  it("lies between the first and the last, and is the same in any order", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 1e9 }), { minLength: 1 }), (waitsMs) => {
        const starts = waitsMs.map((waitMs) => NOW_MS + waitMs);
        const mean = meanStart(starts, NOW_MS);
        expect(mean).toBeGreaterThanOrEqual(Math.min(...starts) - 1);
        expect(mean).toBeLessThanOrEqual(Math.max(...starts) + 1);
        expect(Math.abs(meanStart([...starts].reverse(), NOW_MS) - mean)).toBeLessThan(1);
      }),
    );
  });
});

describe("calibration", () => {
  it.each([0.5, 0.8, 0.9])("of a stationary stream is right as often as wanted: %d", (coverage) => {
    const past = streamOf(1, 4_000).map(({ notified, startMs }) =>
      started(scoreOf(notified, { nowMs: NOW_MS, startMs }) ?? NaN),
    );
    const stretch = stretchOf(past, coverage);
    const next = streamOf(2, 4_000);
    const hits = next.filter(({ notified, startMs }) =>
      isWithin(stretched(notified, NOW_MS, stretch), startMs),
    );
    expect(Math.abs(hits.length / next.length - coverage)).toBeLessThan(0.03);
  });

  it("without any scores trusts the plays, with slack; a fleet without a past takes a trace's", () => {
    expect(stretchOf([])).toEqual({ from: -1, median: 0, to: 1 });
    expect(learnedStretch([], { medianMs: 2 * NOW_MS }, NOW_MS)).toEqual(FITTED);
  });

  it.each([
    ["all have started", [-3, -2, -1, 0, 1, 2, 3, 4, 5, 6], [], { from: -3, median: 1, to: 6 }],
    [
      "those that wait are known to be as late as any",
      [-3, -2, -1, 0, 1, 2, 3, 4, 5],
      [6],
      { from: -3, median: 1, to: 6 },
    ],
    [
      "those that wait are known to be no earlier than most, which the late ones that have started stand for",
      [-3, -2, -1, 0, 1, 2, 3, 4, 5],
      [-2.5],
      { from: -3, median: 1, to: 5 },
    ],
    ["nobody has started", [], [1, 2], { from: 0, median: 2, to: 2 }],
  ])("where %s", (_, reached, open, want) => {
    const seen = [...reached.map(started), ...open.map((off) => ({ off, isOpen: true }))];
    expect(stretchOf(seen)).toEqual(want);
  });

  it("is as if nobody waited any more, where those that wait start as the others did", () => {
    const random = randomFrom(5);
    const all = Array.from({ length: 2_000 }, () => random.normal());
    const whole = stretchOf(all.map(started));
    // Of half of them only so much is known as a wait that was cut at random tells.
    const cut = all.map((off, at): Score => {
      const seen = at % 2 === 0 ? Infinity : random.normal();
      return seen < off ? { off: seen, isOpen: true } : { off };
    });
    const { from, median, to } = stretchOf(cut);
    expect(Math.abs(from - whole.from)).toBeLessThan(0.2);
    expect(Math.abs(median - whole.median)).toBeLessThan(0.2);
    expect(Math.abs(to - whole.to)).toBeLessThan(0.2);
    const closed = stretchOf(cut.filter(({ isOpen }) => isOpen !== true));
    expect(closed.to).toBeLessThan(to);
  });
});

describe("a fleet that keeps its last estimates", () => {
  it("judges short estimates by short ones, and long ones by long ones", () => {
    const kept = (waitMs: number, times: number): KeptEstimate => ({
      askedAtMs: NOW_MS,
      fromMs: NOW_MS,
      medianMs: NOW_MS + waitMs,
      toMs: NOW_MS + waitMs,
      outcome: { kind: "started", atMs: NOW_MS + times * waitMs },
    });
    const own = Array.from({ length: 128 }, (_, at) =>
      at % 2 === 0 ? kept(60_000, 1) : kept(86_400_000, 4),
    );
    const median = (waitMs: number): number =>
      learnedStretch(own, { medianMs: NOW_MS + waitMs }, NOW_MS).median;
    expect(median(60_000)).toBeCloseTo(FITTED.median, 2);
    expect(median(86_400_000)).toBeGreaterThan(1);
  });

  /** Estimates of minutes to weeks, and starts that are more or less so many hours after them. */
  function wildEstimates(hourlyOf: (waitHours: number) => number): readonly KeptEstimate[] {
    const random = randomFrom(7);
    return Array.from({ length: 64 }, () => {
      const waitHours = Math.exp(2 * random.normal());
      const hours = hourlyOf(waitHours) * Math.exp(0.3 * random.normal());
      const medianMs = NOW_MS + waitHours * 3_600_000;
      const atMs = NOW_MS + hours * 3_600_000;
      const outcome = { kind: "started", atMs } as const;
      return { askedAtMs: NOW_MS, fromMs: NOW_MS, medianMs, toMs: medianMs, outcome };
    });
  }

  it.each([
    ["says nothing, draws it to the mean", () => 1, 4],
    ["says all, leaves it where it is", (waitHours: number) => waitHours, 24],
    ["goes not far enough, leaves it where it is", (waitHours: number) => waitHours ** 2, 24],
  ])("whose middle %s", (_, hourlyOf, wantHours) => {
    const own = wildEstimates(hourlyOf);
    const day = { fromMs: NOW_MS, medianMs: NOW_MS + 86_400_000, toMs: NOW_MS + 86_400_000 };
    const { medianMs } = stretched(day, NOW_MS, learnedStretch(own, day, NOW_MS));
    const hours = (medianMs - NOW_MS) / 3_600_000;
    expect(hours).toBeLessThan(wantHours * 1.5);
    expect(hours).toBeGreaterThan(wantHours / 4);
  });

  /** Asked one after the other, each started before the next was asked; how the later ones of `counted` came out. */
  function coverageOf(
    stream: readonly { readonly notified: Interval; readonly startMs: number }[],
    counted: number,
  ): number {
    let ownEstimates: readonly KeptEstimate[] = [];
    const hits = stream.map(({ notified, startMs }) => {
      const shown = stretched(notified, NOW_MS, learnedStretch(ownEstimates, notified, NOW_MS));
      ownEstimates = [
        ...ownEstimates,
        { ...notified, askedAtMs: NOW_MS, outcome: { kind: "started" as const, atMs: startMs } },
      ].slice(-MAX_KEPT_ESTIMATES);
      return isWithin(shown, startMs) ? 1 : 0;
    });
    return hits.slice(-counted).reduce<number>((sum, hit) => sum + hit, 0) / counted;
  }

  it.each([1, 2, 3])("is right in four cases of five (seed %d)", (seed) => {
    const got = coverageOf(streamOf(seed, 1_200), 1_000);
    expect(got).toBeGreaterThan(0.75);
    expect(got).toBeLessThan(0.85);
  });

  it("is so again when estimates have long been fifty times too long", () => {
    const late = streamOf(4, 1_200).map(({ notified, startMs }) => ({
      notified,
      startMs: NOW_MS + (startMs - NOW_MS) / 50,
    }));
    const got = coverageOf([...streamOf(3, 400), ...late], 1_000);
    expect(got).toBeGreaterThan(0.75);
    expect(got).toBeLessThan(0.85);
    const [first, ...rest] = late.slice(-1);
    expect(first && isWithin(stretched(first.notified, NOW_MS), first.startMs)).toBe(false);
    expect(rest).toEqual([]);
  });
});
