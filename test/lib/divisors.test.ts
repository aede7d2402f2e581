/** @file The divisors of a number, from one up. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { divisorsOf } from "../../lib/divisors.ts";

it("divides by every number up to the most that is asked for", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 3_000 }),
      fc.integer({ min: 1, max: 4_000 }),
      (n, most) => {
        const all = Array.from({ length: n }, (_, at) => at + 1).filter((by) => n % by === 0);
        expect(divisorsOf(n)).toEqual(all);
        expect(divisorsOf(n, most)).toEqual(all.filter((by) => by <= most));
        expect(divisorsOf(n, Infinity)).toEqual(all);
      },
    ),
  );
});

it("tries so many numbers at most: of a batch that no job has, some divisors are missing", () => {
  // 6,361 × 69,431 × 20,394,401.
  const count = Number.MAX_SAFE_INTEGER;
  expect(divisorsOf(count)).toEqual([1, 6_361, count / 6_361, count]);
  expect(divisorsOf(count, 1)).toEqual([1]);
});
