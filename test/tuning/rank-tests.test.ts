import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isSmallerTest, upperTail } from "../../tuning/rank-tests.ts";
import { trimmedMean, withoutOutliers } from "../../tuning/trimming.ts";

/** Two samples without ties in which the first loses exactly `losses` of its n·m pairs. */
function samplesWith(n: number, m: number, losses: number): readonly [number[], number[]] {
  const second = Array.from({ length: m }, (_, at) => at + 1);
  const first: number[] = [];
  let left = losses;
  for (let at = 0; at < n; at += 1) {
    const lost = Math.min(m, left);
    left -= lost;
    first.push(lost + 0.5 + at / 1_000);
  }
  return [first, second];
}

/**
 * Critical values of U, one-sided, of the published tables (Mann and Whitney; e.g. Siegel's table K): the largest U of the losing side that
 * is still significant.
 */
const CRITICAL = [
  { n: 4, m: 4, level: 0.05, u: 1 },
  { n: 5, m: 5, level: 0.05, u: 4 },
  { n: 5, m: 5, level: 0.01, u: 1 },
  { n: 6, m: 8, level: 0.05, u: 10 },
  { n: 8, m: 8, level: 0.05, u: 15 },
  { n: 8, m: 8, level: 0.01, u: 9 },
  { n: 10, m: 10, level: 0.05, u: 27 },
  { n: 10, m: 10, level: 0.01, u: 19 },
  { n: 12, m: 12, level: 0.01, u: 31 },
  { n: 15, m: 15, level: 0.05, u: 72 },
  { n: 15, m: 15, level: 0.01, u: 56 },
  { n: 20, m: 20, level: 0.05, u: 138 },
  { n: 20, m: 20, level: 0.01, u: 114 },
];

describe("the one-sided Mann–Whitney test", () => {
  it.each(CRITICAL)("agrees with the table at n $n, m $m, level $level", ({ n, m, level, u }) => {
    const [just, table] = [samplesWith(n, m, u), samplesWith(n, m, u + 1)];
    expect(isSmallerTest(just[0], just[1]).u).toBe(n * m - u);
    expect(isSmallerTest(just[0], just[1]).p).toBeLessThanOrEqual(level);
    expect(isSmallerTest(table[0], table[1]).p).toBeGreaterThan(level);
  });

  it("is what counting all orders says, at small sizes", () => {
    const ranks = [1, 2, 3, 4, 5, 6, 7];
    const subsets = (size: number, from = 0): number[][] =>
      size === 0
        ? [[]]
        : ranks
            .slice(from)
            .flatMap((rank, at) => subsets(size - 1, from + at + 1).map((rest) => [rank, ...rest]));
    const all = subsets(3).map((first) => {
      const second = ranks.filter((rank) => !first.includes(rank));
      return { first, second, u: isSmallerTest(first, second).u };
    });
    for (const { first, second, u } of all) {
      const share = all.filter((other) => other.u >= u).length / all.length;
      expect(isSmallerTest(first, second).p).toBeCloseTo(share, 12);
    }
  });

  it("counts ties half, and has no opinion on equal samples", () => {
    expect(isSmallerTest([1, 2, 3], [2, 2, 2]).u).toBe(4.5);
    expect(isSmallerTest([5, 5, 5, 5], [5, 5, 5, 5])).toMatchObject({ p: 1, delta: 0 });
  });

  it("its normal form is near the exact one where both apply", () => {
    const [first, second] = samplesWith(20, 20, 130);
    const exact = isSmallerTest(first, second).p;
    const tied = isSmallerTest([...first, 30, 30], [...second, 30, 30]).p;
    expect(exact).toBeGreaterThan(0.02);
    expect(Math.abs(tied - exact)).toBeLessThan(0.03);
    expect(upperTail(1.6448536)).toBeCloseTo(0.05, 6);
    expect(upperTail(-2.3263479)).toBeCloseTo(0.99, 6);
  });
});

describe("Cliff's delta", () => {
  it("is the difference of the shares of pairs won and lost", () => {
    const values = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(values, values, (first, second) => {
        const pairs = first.flatMap((a) => second.map((b) => Math.sign(b - a)));
        const delta = pairs.reduce<number>((sum, sign) => sum + sign, 0) / pairs.length;
        expect(isSmallerTest(first, second).delta).toBeCloseTo(delta, 12);
      }),
    );
  });
});

describe("trimming", () => {
  it("takes off what lies beyond one and a half interquartile ranges, and only that", () => {
    expect(withoutOutliers([10, 11, 12, 13, 14, 400])).toEqual([10, 11, 12, 13, 14]);
    expect(withoutOutliers([1, 2, 300])).toEqual([1, 2, 300]);
    expect(trimmedMean([10, 11, 12, 13, 14, 400])).toBe(12);
  });
});
