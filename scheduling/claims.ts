/**
 * @file What waiting requests hold against those behind them in their tenant's quota.
 *
 * A claim lasts for one decision, or until its job has its turn again in a further pass; the next decision works all of them out
 * again from the queue. GPUs are held by reservations (heads.ts), which last.
 */

import type { JobId, TenantId } from "../domain/ids.ts";
import { MAX_HOLDERS } from "../domain/pending.ts";

/** By tenant, then by the key of the quota, then by job; changed by `claimQuota` and `dropClaims` alone. */
export type Claims = Map<TenantId, Map<string, Map<JobId, number>>>;

interface QuotaClaim {
  readonly gpus: number;
  /** The first few. */
  readonly jobs: readonly JobId[];
}

interface Claimant {
  readonly jobId: JobId;
  readonly tenant: TenantId;
}

/** `wanted`: GPUs by the key of the quota that they would count against. In the place of what the job claims under these keys. */
export function claimQuota(
  claims: Claims,
  { jobId, tenant }: Claimant,
  wanted: ReadonlyMap<string, number>,
): void {
  for (const [key, gpus] of wanted) {
    const ofTenant = claims.get(tenant) ?? new Map<string, Map<JobId, number>>();
    claims.set(tenant, ofTenant.set(key, (ofTenant.get(key) ?? new Map()).set(jobId, gpus)));
  }
}

/** A job whose turn it is does not stand in its own way. */
export function dropClaims(claims: Claims, { jobId, tenant }: Claimant): void {
  const ofTenant = claims.get(tenant);
  if (ofTenant === undefined) return;
  for (const [key, byJob] of ofTenant)
    if (byJob.delete(jobId) && byJob.size === 0) ofTenant.delete(key);
  if (ofTenant.size === 0) claims.delete(tenant);
}

export function quotaClaim(claims: Claims, tenant: TenantId, key: string): QuotaClaim {
  const byJob = claims.get(tenant)?.get(key);
  return byJob === undefined
    ? NONE
    : { gpus: sumOf(byJob.values()), jobs: [...byJob.keys()].slice(0, MAX_HOLDERS) };
}

/** Under all keys of all tenants. */
export function claimedGpus(claims: Claims): number {
  let claimed = 0;
  for (const ofTenant of claims.values())
    for (const byJob of ofTenant.values()) claimed += sumOf(byJob.values());
  return claimed;
}

function sumOf(gpus: Iterable<number>): number {
  let sum = 0;
  for (const each of gpus) sum += each;
  return sum;
}

const NONE: QuotaClaim = { gpus: 0, jobs: [] };
