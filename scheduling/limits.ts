/**
 * @file The two kinds of limits on what may be held at once: a tenant's quota and a cluster's watts.
 *
 * Quota: a GPU type that the tenant's rule names has a limit of its own; `*` limits all types that are not named, together;
 * without `*` those are not limited. The borrowing limit comes on top of each of these limits. A tenant without a rule is
 * not limited. Watts: every leased GPU counts with its host's draw; power and cooling are both kept, so the lower one rules.
 *
 * Part of the constitution: `apply` judges by these functions, so a change needs a higher `APPLY_VERSION`.
 */

import type { ClusterShape, TenantRule } from "../domain/fleet.ts";

/** Sums of watts differ by rounding with the order of addition; half a milliwatt is nobody's overload. */
export const WATTS_EPSILON = 5e-4;

export interface QuotaLimit {
  /** What is counted together: a GPU type, or `*`. */
  readonly key: string;
  /** Quota and borrowing limit. */
  readonly gpus: number;
}

/** The limit that GPUs of this type count against; absent when there is none. */
export function quotaLimit(rule: TenantRule | undefined, gpuType: string): QuotaLimit | undefined {
  if (rule === undefined) return undefined;
  const key = Object.hasOwn(rule.quota, gpuType) ? gpuType : "*";
  const quota = Object.hasOwn(rule.quota, key) ? rule.quota[key] : undefined;
  return quota === undefined ? undefined : { key, gpus: quota + rule.borrowingLimit };
}

/** What the busy GPUs of a cluster may draw; infinite when nothing limits them. */
export function wattsLimit({ powerBudgetWatts, coolingBudgetWatts }: ClusterShape): number {
  return Math.min(powerBudgetWatts ?? Infinity, coolingBudgetWatts ?? Infinity);
}

/** How many GPUs of this draw fit into what is left. */
export const gpusWithin = (wattsLeft: number, gpuWatts: number): number =>
  gpuWatts > 0 ? Math.max(0, Math.floor((wattsLeft + WATTS_EPSILON) / gpuWatts)) : Infinity;
