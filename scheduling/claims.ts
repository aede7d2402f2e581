/**
 * @file What waiting requests hold against those behind them in their tenant's quota.
 *
 * A claim lasts for one decision; the next one works all of them out again from the queue. GPUs are held by reservations
 * (heads.ts), which last.
 */

import type { JobId, TenantId } from "../domain/ids.ts";
import { MAX_HOLDERS } from "../domain/pending.ts";

/** Grows by `claimQuota` alone. */
export type Claims = Map<TenantId, Map<string, QuotaClaim>>;

interface QuotaClaim {
  readonly gpus: number;
  readonly jobs: readonly JobId[];
}

/** `wanted`: GPUs by the key of the quota that they would count against. */
export function claimQuota(
  claims: Claims,
  { jobId, tenant }: { readonly jobId: JobId; readonly tenant: TenantId },
  wanted: ReadonlyMap<string, number>,
): void {
  for (const [key, gpus] of wanted) {
    const ofTenant = claims.get(tenant) ?? new Map<string, QuotaClaim>();
    const { gpus: before, jobs } = ofTenant.get(key) ?? NONE;
    const named = jobs.length < MAX_HOLDERS ? [...jobs, jobId] : jobs;
    claims.set(tenant, ofTenant.set(key, { gpus: before + gpus, jobs: named }));
  }
}

export const quotaClaim = (claims: Claims, tenant: TenantId, key: string): QuotaClaim =>
  claims.get(tenant)?.get(key) ?? NONE;

const NONE: QuotaClaim = { gpus: 0, jobs: [] };
