/** @file Which known name a wrong one stands for, and the distance behind it. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { editDistance, nearestName } from "../../../domain/values/nearest-name.ts";

const KEYS = [
  "name",
  "tenant",
  "class",
  "priority",
  "gang",
  "timeLimit",
  "deadline",
  "gpus",
  "min",
];

describe("the nearest name", () => {
  it.each([
    ["gpu", "gpus"],
    ["clas", "class"],
    ["time_limit", "timeLimit"],
    ["TIMELIMIT", "timeLimit"],
    ["time-limit", "timeLimit"],
    ["nmae", "name"],
    ["tennant", "tenant"],
    ["dedline", "deadline"],
    ["frobnicate", undefined],
    ["x", undefined],
    ["", undefined],
    ["a".repeat(10_000), undefined],
  ])("%s stands for %s", (word, want) => {
    expect(nearestName(word, KEYS)).toBe(want);
  });

  it("is the first of several that are equally near", () => {
    expect(nearestName("cat", ["bat", "rat"])).toBe("bat");
  });

  it("is the name itself when it is known", () => {
    for (const key of KEYS) expect(nearestName(key, KEYS)).toBe(key);
  });
});

describe("the distance between two words", () => {
  it.each([
    ["", "", 0],
    ["", "abc", 3],
    ["gpu", "gpus", 1],
    ["nmae", "name", 1],
    ["kitten", "sitting", 3],
  ])("from %s to %s is %d", (a, b, want) => {
    expect(editDistance(a, b)).toBe(want);
  });

  it("is symmetric, 0 only for equal words, and at most the length of the longer", () => {
    const word = fc.string({ maxLength: 8, unit: fc.constantFrom("a", "b", "c") });
    fc.assert(
      fc.property(word, word, (a, b) => {
        const distance = editDistance(a, b);
        expect(distance).toBe(editDistance(b, a));
        expect(distance === 0).toBe(a === b);
        expect(distance).toBeLessThanOrEqual(Math.max(a.length, b.length));
      }),
    );
  });
});
