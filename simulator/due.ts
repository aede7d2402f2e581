/**
 * @file Who is due how many GPUs at one moment: weighted max-min over those that want any ("water-filling").
 *
 * Everybody's level rises in proportion to its weight until it has what it wants or nothing is left. Exact. Cost: O(n log n).
 */

export interface Claimant {
  readonly weight: number;
  /** GPUs that it runs on and waits for. */
  readonly demand: number;
}

/** In the order of the claimants; the sum is `total` or all of the demand. */
export function dueShares(total: number, claimants: readonly Claimant[]): readonly number[] {
  const due = claimants.map(() => 0);
  const bySaturation = claimants
    .map(({ weight, demand }, at) => ({ at, weight, demand, level: demand / weight }))
    .sort((a, b) => a.level - b.level || a.at - b.at);
  let left = total;
  let weights = bySaturation.reduce((sum, { weight }) => sum + weight, 0);
  for (const { at, weight, demand } of bySaturation) {
    const share = Math.min(demand, (left * weight) / weights);
    due[at] = share;
    left -= share;
    weights -= weight;
  }
  return due;
}
