/** @file Due shares against a fluid that is poured drop by drop. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dueShares, waterFill, type Demand } from "../../../scheduling/fairness/due-share.ts";
import { caseCount } from "../../support/case-count.ts";

const demands = fc
  .array(
    fc.record({
      weight: fc.constantFrom(1, 2, 10, 100, 0.5),
      gpus: fc.integer({ min: 0, max: 40 }),
    }),
    { maxLength: 6 },
  )
  .map((all): readonly Demand[] => all.map((each, at) => ({ key: `flow-${at}`, ...each })));

/** Raises the level of all at once in small steps, each by its weight, until the supply is used up. */
function fluid(all: readonly Demand[], supply: number): Map<string, number> {
  const shares = new Map(all.map(({ key }) => [key, 0]));
  let left = supply;
  for (;;) {
    const thirsty = all.filter(({ key, gpus }) => (shares.get(key) ?? 0) < gpus - 1e-9);
    if (thirsty.length === 0 || left <= 1e-9) return shares;
    const weight = thirsty.reduce((sum, each) => sum + each.weight, 0);
    // As far as the first of them is full, or the supply is gone.
    const rise = Math.min(
      left / weight,
      ...thirsty.map(({ key, gpus, weight: own }) => (gpus - (shares.get(key) ?? 0)) / own),
    );
    for (const { key, weight: own } of thirsty)
      shares.set(key, (shares.get(key) ?? 0) + rise * own);
    left -= rise * weight;
  }
}

describe("water-filling", () => {
  test("gives what a fluid gives that is poured in by weight", () => {
    fc.assert(
      fc.property(demands, fc.integer({ min: 0, max: 100 }), (all, supply) => {
        const want = fluid(all, supply);
        const got = waterFill(all, supply);
        expect([...got.keys()].sort()).toEqual([...want.keys()].sort());
        for (const [key, gpus] of want) expect(got.get(key)).toBeCloseTo(gpus, 6);
      }),
      { numRuns: caseCount(500) },
    );
  });

  test.each([
    { name: "nobody waits", all: [], supply: 8, want: [] },
    {
      name: "there is enough",
      all: [
        [1, 3],
        [100, 4],
      ],
      supply: 8,
      want: [3, 4],
    },
    {
      name: "weights decide",
      all: [
        [1, 8],
        [3, 8],
      ],
      supply: 8,
      want: [2, 6],
    },
    {
      name: "what one leaves the others share",
      all: [
        [1, 8],
        [1, 8],
        [100, 2],
      ],
      supply: 8,
      want: [3, 3, 2],
    },
    {
      name: "there is nothing",
      all: [
        [1, 8],
        [10, 8],
      ],
      supply: 0,
      want: [0, 0],
    },
  ])("when $name", ({ all, supply, want }) => {
    const wanted = all.map(([weight = 1, gpus = 0], at) => ({ key: `f${at}`, weight, gpus }));
    const shares = waterFill(wanted, supply);
    expect(wanted.map(({ key }) => shares.get(key))).toEqual(want);
  });
});

describe("dues of classes and tenants", () => {
  const weightOf = (flow: string): number =>
    ({ inference: 100, interactive: 10, training: 1 })[flow] ?? (flow.endsWith(" big") ? 2 : 1);

  test("a class's due is filled over its tenants", () => {
    const due = dueShares(
      new Map([
        ["inference a", 2],
        ["training a", 8],
        ["training big", 8],
      ]),
      weightOf,
      8,
    );
    expect(Object.fromEntries(due)).toEqual({
      inference: 2,
      training: 6,
      "inference a": 2,
      "training a": 2,
      "training big": 4,
    });
  });

  test("add up to what there is, whoever asks for what", () => {
    const flows = fc.constantFrom(
      "inference a",
      "inference big",
      "training a",
      "training b",
      "interactive big",
    );
    const wanted = fc.uniqueArray(fc.tuple(flows, fc.integer({ min: 0, max: 30 })), {
      selector: ([flow]) => flow,
    });
    fc.assert(
      fc.property(wanted, fc.integer({ min: 0, max: 50 }), (all, supply) => {
        const due = dueShares(new Map(all), weightOf, supply);
        const leaves = all.reduce((sum, [flow]) => sum + (due.get(flow) ?? 0), 0);
        const demand = all.reduce((sum, [, gpus]) => sum + gpus, 0);
        expect(leaves).toBeCloseTo(Math.min(supply, demand), 6);
        for (const [flow, gpus] of all) expect(due.get(flow)).toBeLessThanOrEqual(gpus + 1e-9);
      }),
    );
  });
});
