/** @file On which sets the bench trains and tests: no set is on both sides, and the choice looks at no value. */
import { describe, expect, test } from "vitest";
import { setsFor, splitOf, TRAINING_WAYS } from "../../../bench/pick/training-sets.ts";
import { readTruthData } from "../../../bench/pick/truth-data.ts";
import { countsKey, h100Truth, hetTruth, type Truth } from "../../../bench/pick/truth.ts";
import type { Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { randomFrom } from "../../../lib/random.ts";

const data = readTruthData();
const measured = h100Truth(data);
const mixed = hetTruth("Het-4Mix", data);
const exact = (shares: Candidate): string => JSON.stringify(shares);
const cases: readonly (readonly [string, Truth, (shares: Candidate) => string])[] = [
  ["H100", measured, countsKey],
  ...(mixed === undefined ? [] : ([["Het-4Mix", mixed, exact]] as const)),
];

describe.each(cases)("of %s", (_, truth, nameOf) => {
  test.each(TRAINING_WAYS)("%s sets are different, over hosts, and in no test", (training) => {
    const { train, test: tests } = splitOf(truth, { samples: 60, seed: 1, training });
    const names = new Set(train.map(({ shares }) => nameOf(shares)));
    expect(names.size).toBe(60);
    expect(tests.length).toBeGreaterThan(200);
    for (const { shares } of tests) expect(names.has(nameOf(shares))).toBe(false);
    for (const { shares, gbs } of train) {
      expect(shares.length).toBeGreaterThan(1);
      expect(gbs).toBe(truth.gbs(shares));
    }
  });

  test.each(["planned", "chosen"] as const)("%s sets do not depend on what they measure", (way) => {
    const other: Truth = {
      ...truth,
      gbs: (shares) => (truth.gbs(shares) === undefined ? undefined : 100 / shares.length),
    };
    const chosen = (of: Truth): readonly Candidate[] =>
      setsFor(of, { samples: 30, training: way, random: randomFrom(2, "sets") }).map(
        ({ shares }) => shares,
      );
    expect(chosen(other)).toEqual(chosen(truth));
  });
});
