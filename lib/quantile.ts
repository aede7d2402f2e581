/** @file Quantiles of what was measured. Cost: O(n log n). */

/** The nearest-rank quantile, so always a value that was measured; NaN of nothing. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const rank = Math.max(1, Math.ceil(share * sorted.length));
  return sorted[rank - 1] ?? NaN;
}
