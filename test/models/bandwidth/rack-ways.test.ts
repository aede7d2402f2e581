/** @file What the ways out of racks leave of bandwidths, learned from sets over several racks. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import {
  expectedPart,
  rackWays,
  type RackWays,
  type WaySet,
} from "../../../models/bandwidth/rack-ways.ts";

const RACKS = Array.from({ length: 12 }, (_, at) => `r${String(at)}`);
const BAD = new Set(["r2", "r5", "r9"]);

/** A bad rack leaves 0.35 of every second set; others leave everything. */
function setsOf(count: number, over = 2, most = 1): readonly WaySet[] {
  const random = randomFrom(3, "sets");
  return Array.from({ length: count }, () => {
    const start = random.below(RACKS.length);
    const step = 1 + random.below(RACKS.length - 1);
    const racks = Array.from(
      { length: over },
      (_, at) => RACKS[(start + at * step) % RACKS.length] ?? "",
    );
    const isHeld = racks.filter((rack) => BAD.has(rack)).some(() => random.unit() < 0.5);
    return { racks, hosts: 2 * over, part: Math.min(most, isHeld ? 0.35 : 1), most };
  });
}

describe("ways out of racks", () => {
  const ways = rackWays(setsOf(120));
  if (ways === undefined) throw new Error("sets of one size differ");
  const alone = (rack: string, of: RackWays = ways): number => expectedPart(of, [rack]);

  it("are worse where sets were held up whose other racks let others through", () => {
    const good = RACKS.filter((rack) => !BAD.has(rack)).map((rack) => alone(rack));
    const bad = [...BAD].map((rack) => alone(rack));
    expect(Math.min(...good)).toBeGreaterThan(0.85);
    expect(Math.max(...bad)).toBeLessThan(Math.min(...good) - 0.05);
    expect(alone("never measured")).toBeGreaterThan(Math.max(...bad));
    expect(alone("never measured")).toBeLessThan(Math.max(...good));
  });

  it("leave a gang what is likely over all its racks: the sum over all ways in which they may hold it up", () => {
    // Two levels a rack, all combinations by hand.
    const two: RackWays = {
      racks: { a: levels(0.35, 0.5), b: levels(0.55, 0.8) },
      usual: levels(0.95, 1),
    };
    const outcomes = [
      { part: 0.4, chance: 0.5 },
      { part: 0.6, chance: 0.5 * 0.2 },
      { part: 1, chance: 0.5 * 0.8 },
    ];
    const want = outcomes.reduce((sum, { part, chance }) => sum + part * chance, 0);
    expect(expectedPart(two, ["a", "b"])).toBeCloseTo(want, 9);
    expect(expectedPart(two, ["a", "b"], 0.5)).toBeCloseTo(0.4 * 0.5 + 0.5 * 0.5, 9);
    expect(expectedPart(two, ["a", "b"], 0.05)).toBeCloseTo(0.05, 9);
  });

  it("let through no more over more racks, and no more than the weakest host allows", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.constantFrom(...RACKS), { minLength: 2 }),
        fc.double({ min: 0.01, max: 1, noNaN: true }),
        (racks, most) => {
          const part = expectedPart(ways, racks, most);
          expect(part).toBeGreaterThan(0);
          expect(part).toBeLessThanOrEqual(most + 1e-12);
          expect(part).toBeLessThanOrEqual(expectedPart(ways, racks.slice(1), most) + 1e-12);
        },
      ),
    );
  });

  it("are not blamed for what a slow host of a set explains", () => {
    const besideSlow = setsOf(200).map((set) => ({ ...set, part: 0.3, most: 0.3 }));
    const found = rackWays([...setsOf(120), ...besideSlow]);
    for (const rack of RACKS)
      expect(found === undefined ? NaN : alone(rack, found)).toBeCloseTo(alone(rack), 9);
  });

  it("are not told apart where sets of one size are alike, or there are few", () => {
    expect(rackWays(setsOf(8))).toBeUndefined();
    const even = setsOf(60).map((set, at) => ({ ...set, part: 0.8 + 0.02 * (at % 3) }));
    expect(rackWays(even)).toBeUndefined();
    const bySize = [2, 4, 8].flatMap((over) =>
      setsOf(30, over).map((set) => ({ ...set, part: 1 / over })),
    );
    expect(rackWays(bySize)).toBeUndefined();
  });

  it("are not told apart by a tenth, which is noise", () => {
    const noisy = setsOf(200).map((set, at) => ({ ...set, part: set.part - 0.09 * (at % 2) }));
    const found = rackWays(noisy);
    if (found === undefined) throw new Error("sets of one size differ");
    for (const levels of [found.usual, ...Object.values(found.racks)])
      expect(levels.at(-1)).toBe(levels.at(-2));
  });

  it("take any name of a rack", () => {
    expect(alone("constructor")).toBe(alone("never measured"));
  });
});

/** 1 up to this level, from there on the chance. */
function levels(from: number, chance: number): readonly number[] {
  return Array.from({ length: 9 }, (_, at) => (0.1 * (at + 1.5) <= from + 1e-9 ? 1 : chance));
}
