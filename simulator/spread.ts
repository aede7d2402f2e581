/** @file Many numbers in few: mean, quantiles by nearest rank, and the distribution at 101 shares. Cost: O(n log n). */

import type { Spread } from "./result.ts";

const SHARES = 100;

export function spreadOf(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  const count = sorted.length;
  const at = (share: number): number =>
    sorted[Math.max(0, Math.ceil(share * count - 1e-9) - 1)] ?? 0;
  let sum = 0;
  for (const value of sorted) sum += value;
  return {
    count,
    mean: count > 0 ? sum / count : 0,
    p50: at(0.5),
    p90: at(0.9),
    p95: at(0.95),
    p99: at(0.99),
    max: at(1),
    cdf:
      count === 0
        ? []
        : Array.from({ length: SHARES + 1 }, (_, step) => [at(step / SHARES), step / SHARES]),
  };
}
