/** @file Exactly so many numbers with the least sum that is enough. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { leastSubset } from "../../lib/subset-sum.ts";

const LIMIT = { mostWords: 1_000_000 };

test.each([
  { numbers: [4, 4, 4, 12], count: 2, atLeast: 16, want: 16 },
  { numbers: [7, 5, 3], count: 2, atLeast: 9, want: 10 },
  { numbers: [7, 5, 3], count: 1, atLeast: 8, want: undefined },
  { numbers: [7, 5, 3], count: 4, atLeast: 1, want: undefined },
  { numbers: [40, 33, 31, 2], count: 3, atLeast: 66, want: 66 },
])("$count of $numbers that make $atLeast make $want", ({ numbers, count, atLeast, want }) => {
  const { places } = leastSubset(numbers, { count, atLeast, ...LIMIT });
  expect(places?.reduce((sum, at) => sum + (numbers[at] ?? 0), 0)).toBe(want);
});

test("no subset of as many comes closer, whatever the numbers are", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(80), { minLength: 1, maxLength: 9 }),
      fc.integer({ min: 1, max: 9 }),
      fc.nat(400),
      (numbers, count, atLeast) => {
        const { places, isExact } = leastSubset(numbers, { count, atLeast, ...LIMIT });
        const sums: number[] = [];
        for (let mask = 0; mask < 1 << numbers.length; mask += 1) {
          const chosen = numbers.filter((_, at) => ((mask >> at) & 1) === 1);
          if (chosen.length === count) sums.push(chosen.reduce((sum, each) => sum + each, 0));
        }
        const enough = sums.filter((sum) => sum >= atLeast);
        expect(isExact).toBe(true);
        expect(places === undefined).toBe(enough.length === 0);
        if (places === undefined) return;
        expect(new Set(places).size).toBe(count);
        expect(places.reduce((sum, at) => sum + (numbers[at] ?? 0), 0)).toBe(Math.min(...enough));
      },
    ),
  );
});

test("tables that would pass the limit are not made", () => {
  const settings = { count: 2, atLeast: 900, mostWords: 10 };
  expect(leastSubset([500, 400, 300], settings)).toEqual({ isExact: false, words: 0 });
});
