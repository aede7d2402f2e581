/** @file The gate of bandwidth models: what is held out, and who passes. */
import { describe, expect, test } from "vitest";
import {
  evaluateVersion,
  LEAST_CANDIDATES,
  LEAST_HELD_OUT,
  plainGuess,
  scoreOf,
  splitSamples,
  type GateSample,
} from "../../../models/bandwidth/gate.ts";

const sample = (mask: number, gbs: number, weight = 1): GateSample => ({
  shares: [
    { host: 0, mask },
    { host: 1, mask: 1 },
  ],
  gbs,
  weight,
});
const many = (count: number): readonly GateSample[] =>
  Array.from({ length: count }, (_, at) => sample(at + 1, 100 + at));
const masks = (samples: readonly GateSample[]): readonly number[] =>
  samples.map(({ shares }) => shares[0]?.mask ?? 0);

describe("the split", () => {
  test("holds out about a fifth of the candidates, every measurement of one on one side", () => {
    const samples = [...many(40), ...many(40)];
    const split = splitSamples(samples);
    const held = new Set(masks(split?.heldOut ?? []));
    expect(split?.heldOut).toHaveLength(2 * held.size);
    expect(held.size).toBe(7);
    expect(masks(split?.training ?? []).some((mask) => held.has(mask))).toBe(false);
  });

  test("holds out the same candidates when more are measured, so that who serves has not seen them", () => {
    const before = new Set(masks(splitSamples(many(100))?.heldOut ?? []));
    const after = new Set(masks(splitSamples(many(110))?.heldOut ?? []));
    expect([...before].filter((mask) => !after.has(mask))).toEqual([]);
  });

  test("learns from stale samples and never judges by them", () => {
    const stale = many(40).map((each) => ({ ...each, weight: 0.1 }));
    const split = splitSamples([
      ...many(40).map((each) => sample(64 + (masks([each])[0] ?? 0), 1)),
      ...stale,
    ]);
    expect(split?.heldOut.every(({ weight }) => weight === 1)).toBe(true);
    expect(split?.training.filter(({ weight }) => weight < 1)).toHaveLength(40);
  });

  test.each([
    { name: "one candidate too few", count: LEAST_CANDIDATES - 1, want: undefined },
    { name: "just enough", count: LEAST_CANDIDATES, want: LEAST_HELD_OUT },
  ])("$name", ({ count, want }) => {
    expect(splitSamples(many(count))?.heldOut.length).toBe(want);
  });
});

describe("the verdict", () => {
  const score = (mape: number) => ({ mape, samples: 8 });
  test.each([
    { name: "better than who serves", own: 0.04, serving: 0.05, plain: 0.01, want: true },
    { name: "a tie with who serves", own: 0.05, serving: 0.05, plain: 0.9, want: false },
    { name: "worse than who serves", own: 0.06, serving: 0.05, plain: 0.9, want: false },
    { name: "the first, better than a guess", own: 0.05, plain: 0.2, want: true },
    { name: "the first, as good as a guess", own: 0.2, plain: 0.2, want: false },
    { name: "no numbers", own: NaN, plain: 0.2, want: false },
    { name: "who serves has no numbers", own: 0.05, serving: NaN, plain: 0.2, want: true },
  ])("$name", ({ own, serving, plain, want }) => {
    const gate = evaluateVersion(score(own), {
      plain: score(plain),
      ...(serving !== undefined && { serving: { version: "v1", ...score(serving) } }),
    });
    expect(gate.holds).toBe(want);
    expect(gate.reason).not.toBe("");
  });
});

test("a plain guess is the mean of sets of as many GPUs over as many hosts, else of all", () => {
  const guess = plainGuess([sample(1, 10), sample(2, 20), sample(3, 60)]);
  const shares = (mask: number) => sample(mask, 0).shares;
  const asked = [4, 5, 7].map((mask) => ({ shares: shares(mask) }));
  expect(guess(asked)).toEqual([15, 60, 30]);
  expect(scoreOf(guess, [sample(4, 30)])).toEqual({ mape: 0.5, samples: 1 });
});
