/** @file Which of the fleet's own start estimates a step has judged: their jobs have started. */

import type { KeptEstimate } from "../../scheduling/ledger/rules/start-estimates.ts";

export const ESTIMATE_RESULTS = ["before", "within", "after"] as const;
export type EstimateResult = (typeof ESTIMATE_RESULTS)[number];

/**
 * Where each start lies beside its estimated interval. Compared by value, as ended runs are; two estimates may be equal, so they are counted.
 * O(estimates), and only where they have changed.
 */
export function judgedEstimates(
  before: readonly KeptEstimate[] = [],
  after: readonly KeptEstimate[] = [],
): readonly EstimateResult[] {
  if (after === before) return [];
  const known = new Map<string, number>();
  for (const { key } of startedOf(before)) known.set(key, (known.get(key) ?? 0) + 1);
  const results: EstimateResult[] = [];
  for (const { key, result } of startedOf(after)) {
    const left = known.get(key) ?? 0;
    if (left > 0) known.set(key, left - 1);
    else results.push(result);
  }
  return results;
}

const startedOf = (
  estimates: readonly KeptEstimate[],
): readonly { readonly key: string; readonly result: EstimateResult }[] =>
  estimates.flatMap(({ askedAtMs, fromMs, medianMs, toMs, outcome }) => {
    if (outcome.kind !== "started") return [];
    const { atMs } = outcome;
    const result = atMs < fromMs ? "before" : atMs > toMs ? "after" : "within";
    return [{ key: [askedAtMs, fromMs, medianMs, toMs, atMs].join(" "), result }];
  });
