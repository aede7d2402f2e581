/** @file Bars: when one holds, and what an unmeasured one says. */
import { describe, expect, test } from "vitest";
import { atLeast, atMost, barOf, exactly, REPORTED, unmeasured } from "../../bench/bar.ts";
import { figureText, holdsAll } from "../../bench/report.ts";
import { drawFrom, quantile, spreadOf } from "../../bench/statistics.ts";

describe("a bar holds when its figure is as wanted", () => {
  test.each([
    { target: atMost(3), got: 3, want: "<= 3", wantHolds: true },
    { target: atMost(3), got: 3.01, want: "<= 3", wantHolds: false },
    { target: atLeast(64), got: 64, want: ">= 64", wantHolds: true },
    { target: atLeast(64), got: 63.9, want: ">= 64", wantHolds: false },
    { target: exactly(0), got: 0, want: "= 0", wantHolds: true },
    { target: exactly(0), got: 1, want: "= 0", wantHolds: false },
    { target: REPORTED, got: 12, want: "reported", wantHolds: true },
  ])("$want, got $got", ({ target, got, want, wantHolds }) => {
    const bar = barOf({ id: "x", unit: "ms", target, got });
    expect(bar).toEqual({ id: "x", unit: "ms", want, got, holds: wantHolds });
  });

  test.each([undefined, NaN, Infinity])("%s is no figure, and holds nothing", (got) => {
    for (const target of [atMost(3), atLeast(0), REPORTED]) {
      expect(barOf({ id: "x", unit: "ms", target, got })).toMatchObject({
        got: null,
        holds: false,
      });
    }
  });

  test("what was not measured says why", () => {
    const bar = unmeasured({ id: "x", unit: "ms", target: REPORTED }, "no arrays yet");
    expect(bar).toMatchObject({ got: null, holds: false, note: "not measured: no arrays yet" });
  });

  test("a bench without bars has shown nothing", () => {
    expect(holdsAll([])).toBe(false);
  });
});

describe("figures", () => {
  test.each([
    [0, "0"],
    [0.123456, "0.123"],
    [0.00012345, "0.000123"],
    [2.34567, "2.35"],
    [64.04, "64"],
    [64.06, "64.1"],
    [1234.5, "1,235"],
    [1234567, "1,234,567"],
  ])("%s reads %s", (value, want) => {
    expect(figureText(value)).toBe(want);
  });

  test("a quantile is a value that was measured", () => {
    const values = [5, 1, 4, 2, 3];
    expect(spreadOf(values)).toEqual({ count: 5, p50: 3, p99: 5, min: 1, max: 5 });
    expect(quantile([], 0.5)).toBeNaN();
  });

  test("the same seed draws the same, another one something else", () => {
    const drawn = (seed: number): readonly number[] => {
      const draw = drawFrom(seed);
      return Array.from({ length: 20 }, () => draw.below(1_000));
    };
    expect(drawn(7)).toEqual(drawn(7));
    expect(drawn(7)).not.toEqual(drawn(8));
    expect(drawn(7).every((value) => value >= 0 && value < 1_000)).toBe(true);
  });
});
