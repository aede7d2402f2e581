/**
 * @file Quartiles, and the mean of the values within 1.5 interquartile ranges of them (bandit paper §4.1, §4.2).
 *
 * Quantiles interpolate between neighbours (Hyndman and Fan's type 7, the default of R and NumPy). Cost: a sort.
 */

/** Of ascending values; NaN of none. */
function quantileOf(ascending: readonly number[], share: number): number {
  const at = (ascending.length - 1) * share;
  const below = Math.floor(at);
  const low = ascending[below] ?? NaN;
  const high = ascending[below + 1] ?? low;
  return low + (high - low) * (at - below);
}

export const ascending = (values: readonly number[]): readonly number[] =>
  [...values].sort((a, b) => a - b);

export const medianOf = (values: readonly number[]): number => quantileOf(ascending(values), 0.5);

/** Ascending; what is left when outliers are gone. Nothing is an outlier among fewer than four. */
export function withoutOutliers(values: readonly number[]): readonly number[] {
  const sorted = ascending(values);
  if (sorted.length < 4) return sorted;
  const low = quantileOf(sorted, 0.25);
  const high = quantileOf(sorted, 0.75);
  const reach = 1.5 * (high - low);
  return sorted.filter((value) => value >= low - reach && value <= high + reach);
}

export const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

export const trimmedMean = (values: readonly number[]): number => meanOf(withoutOutliers(values));
