/** @file The interval of a start estimate: stretched about its median, monotone in the wanted coverage, and right as often as wanted. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { randomFrom } from "../../lib/random.ts";
import { scoreOf, stretched, stretchOf, type Interval } from "../../scheduling/calibration.ts";

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
const scores = fc.array(fc.double({ min: -20, max: 20, noNaN: true }), { maxLength: 60 });

/** A stream of questions whose plays are too sure of themselves, the same at any time. */
function streamOf(seed: number, count: number): readonly { told: Interval; startMs: number }[] {
  const random = randomFrom(seed);
  return Array.from({ length: count }, () => {
    const medianMs = NOW_MS + 3_600_000 * Math.exp(random.normal());
    const waitMs = medianMs - NOW_MS;
    const told = { fromMs: NOW_MS + waitMs / 1.2, medianMs, toMs: NOW_MS + waitMs * 1.3 };
    return { told, startMs: NOW_MS + waitMs * Math.exp(0.3 + 1.1 * random.normal()) };
  });
}

const isWithin = ({ fromMs, toMs }: Interval, startMs: number): boolean =>
  startMs >= fromMs && startMs <= toMs;

describe("a stretched interval", () => {
  it("contains the median and begins no sooner than now", () => {
    fc.assert(
      fc.property(intervals, scores, (told, seen) => {
        const { fromMs, medianMs, toMs } = stretched(told, NOW_MS, stretchOf(seen));
        expect(medianMs).toBe(told.medianMs);
        expect(fromMs).toBeLessThanOrEqual(medianMs);
        expect(toMs).toBeGreaterThanOrEqual(medianMs);
        expect(fromMs).toBeGreaterThanOrEqual(NOW_MS);
      }),
    );
  });

  it("is no narrower for a greater coverage", () => {
    const shares = fc.double({ min: 0.05, max: 0.99, noNaN: true });
    fc.assert(
      fc.property(intervals, scores, shares, shares, (told, seen, one, other) => {
        const narrow = stretched(told, NOW_MS, stretchOf(seen, Math.min(one, other)));
        const wide = stretched(told, NOW_MS, stretchOf(seen, Math.max(one, other)));
        expect(wide.fromMs).toBeLessThanOrEqual(narrow.fromMs);
        expect(wide.toMs).toBeGreaterThanOrEqual(narrow.toMs);
      }),
    );
  });

  it("reaches as far as the start that was scored", () => {
    fc.assert(
      fc.property(intervals, fc.integer({ min: 0, max: 1e9 }), (told, waitMs) => {
        const startMs = NOW_MS + waitMs;
        const score = scoreOf(told, { nowMs: NOW_MS, startMs }) ?? NaN;
        const { fromMs, toMs } = stretched(told, NOW_MS, stretchOf([score]));
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
  ])("is %s", (_, told, wantToMs) => {
    const got = stretched(told, NOW_MS, { earlier: 3, later: 3 });
    expect(got.toMs).toBe(wantToMs);
    expect(got.medianMs).toBe(told.medianMs);
    expect(got.fromMs).toBeLessThanOrEqual(told.fromMs);
  });
});

describe("calibration", () => {
  it.each([0.5, 0.8, 0.9])("of a stationary stream is right as often as wanted: %d", (coverage) => {
    const past = streamOf(1, 4_000).flatMap(
      ({ told, startMs }) => scoreOf(told, { nowMs: NOW_MS, startMs }) ?? [],
    );
    const stretch = stretchOf(past, coverage);
    const next = streamOf(2, 4_000);
    const hits = next.filter(({ told, startMs }) =>
      isWithin(stretched(told, NOW_MS, stretch), startMs),
    );
    expect(Math.abs(hits.length / next.length - coverage)).toBeLessThan(0.03);
  });

  it("without any past trusts the plays, with slack", () => {
    expect(stretchOf([])).toEqual({ earlier: 1, later: 1 });
  });
});
