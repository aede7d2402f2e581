/** @file The fold of cover tables, against every way to split the GPUs over the parts: cost, then tie; what is taken adds up. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  exactCost,
  foldCovers,
  leastOf,
  openedCover,
  type Cover,
} from "../../../scheduling/placement/cover.ts";

const entries = fc.array(fc.record({ cost: fc.nat({ max: 5 }), tie: fc.nat({ max: 3 }) }), {
  minLength: 1,
  maxLength: 4,
});

const coverOf = (
  drawn: readonly { readonly cost: number; readonly tie: number }[],
  take: (gpus: number) => void,
): Cover => ({
  size: drawn.length,
  least: 0,
  cost: Float64Array.from([0, ...drawn.map(({ cost }) => exactCost(cost / 8))]),
  tie: Float64Array.from([0, ...drawn.map(({ tie }) => tie)]),
  take,
});

/** All ways to take `gpus` from the parts from `at` on, as [cost, tie]. */
function waysOf(
  parts: readonly Cover[],
  gpus: number,
  at = 0,
): readonly (readonly [number, number])[] {
  const part = parts[at];
  if (part === undefined) return gpus === 0 ? [[0, 0]] : [];
  return Array.from({ length: Math.min(gpus, part.size) + 1 }, (_, own) => own).flatMap((own) =>
    waysOf(parts, gpus - own, at + 1).map(
      ([cost, tie]) => [cost + (part.cost[own] ?? 0), tie + (part.tie[own] ?? 0)] as const,
    ),
  );
}

test("is the cheapest way to take each number, and takes exactly that number at that cost", () => {
  fc.assert(
    fc.property(
      fc.array(entries, { minLength: 1, maxLength: 4 }),
      fc.nat({ max: 12 }),
      fc.nat({ max: 12 }),
      (drawn, a, b) => {
        const taken: (readonly [part: number, gpus: number])[] = [];
        const parts = drawn.map((each, at) => coverOf(each, (gpus) => taken.push([at, gpus])));
        const total = parts.reduce((sum, { size }) => sum + size, 0);
        const [least, most] = [Math.min(a, b, total), Math.max(a, b)];
        const { cover } = foldCovers(parts, { least, most });
        expect(cover.size).toBe(Math.min(most, total));
        for (let gpus = Math.max(1, least); gpus <= cover.size; gpus += 1) {
          const [best] = [...waysOf(parts, gpus)].sort((x, y) => x[0] - y[0] || x[1] - y[1]);
          expect([cover.cost[gpus], cover.tie[gpus]]).toEqual(best);
          taken.length = 0;
          cover.take(gpus);
          expect(taken.reduce((sum, [, own]) => sum + own, 0)).toBe(gpus);
          const paid = taken.reduce((sum, [at, own]) => sum + (parts[at]?.cost[own] ?? 0), 0);
          expect(paid).toBe(cover.cost[gpus]);
        }
      },
    ),
  );
});

test("opening a part costs the same for any number, and nothing for none", () => {
  const cover = coverOf(
    [
      { cost: 1, tie: 0 },
      { cost: 2, tie: 1 },
    ],
    () => undefined,
  );
  const opened = openedCover(cover, { cost: exactCost(0.5), tieOf: (gpus) => 10 - gpus });
  expect([...opened.cost]).toEqual([0, 0.625, 0.75]);
  expect([...opened.tie]).toEqual([0, 9, 9]);
  expect([...cover.cost]).toEqual([0, 0.125, 0.25]);
});

test.each([
  { least: 10, total: 12, size: 4, want: 2 },
  { least: 3, total: 12, size: 4, want: 0 },
  { least: 12, total: 12, size: 4, want: 4 },
])("$least of $total need $want of a part of $size", ({ least, total, size, want }) => {
  expect(leastOf(least, total, size)).toBe(want);
});
