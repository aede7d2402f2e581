/**
 * @file Quota that waiting requests claim ahead of later requests of their tenant.
 *
 * A claim lasts for one decision, or until the cycle comes to its job again in a further pass; the next decision works out all claims anew
 * from the queue. GPUs are held by reservations (reservation-set.ts), which last.
 */

import type { JobId, TenantId } from "../../domain/values/ids.ts";
import { MAX_HOLDERS } from "../../domain/lease/pending.ts";

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

/** `wanted`: GPUs by the key of the quota that they count against. Replaces the claims of the job under these keys. */
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

/** A claim must not count against its own job when the cycle comes to it. */
export function dropClaims(claims: Claims, { jobId, tenant }: Claimant): void {
  const ofTenant = claims.get(tenant);
  if (ofTenant === undefined || !hasClaim(ofTenant, jobId)) return;
  for (const [key, byJob] of ofTenant)
    if (byJob.delete(jobId) && byJob.size === 0) ofTenant.delete(key);
  if (ofTenant.size === 0) claims.delete(tenant);
}

/** Most requests have none; nothing is allocated for them. */
function hasClaim(ofTenant: ReadonlyMap<string, ReadonlyMap<JobId, number>>, job: JobId): boolean {
  for (const byJob of ofTenant.values()) if (byJob.has(job)) return true;
  return false;
}

/** GPUs that jobs of the tenant claim under the key. */
export function claimedGpus(claims: Claims, tenant: TenantId, key: string): number {
  const byJob = claims.get(tenant)?.get(key);
  return byJob === undefined ? 0 : sumOf(byJob.values());
}

/** The same, with their names. */
export function quotaClaim(claims: Claims, tenant: TenantId, key: string): QuotaClaim {
  const byJob = claims.get(tenant)?.get(key);
  return byJob === undefined
    ? NONE
    : { gpus: sumOf(byJob.values()), jobs: [...byJob.keys()].slice(0, MAX_HOLDERS) };
}

function sumOf(gpus: Iterable<number>): number {
  let sum = 0;
  for (const each of gpus) sum += each;
  return sum;
}

const NONE: QuotaClaim = { gpus: 0, jobs: [] };
