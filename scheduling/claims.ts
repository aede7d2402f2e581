/**
 * @file What waiting requests hold against those behind them: clusters to drain for them, and room in their tenant's quota.
 *
 * A claim lasts for one decision; the next one works all of them out again from the queue.
 */

import type { ClusterId, JobId, TenantId } from "../domain/ids.ts";
import { MAX_HOLDERS } from "../domain/pending.ts";

/** Grows by `claimClusters` and `claimQuota` alone. */
export interface Claims {
  /** Who waits for a cluster, in the order of the queue; the first few are enough to name. */
  readonly clusters: Map<ClusterId, JobId[]>;
  readonly quota: Map<TenantId, Map<string, QuotaClaim>>;
}

interface QuotaClaim {
  readonly gpus: number;
  readonly jobs: readonly JobId[];
}

export const noClaims = (): Claims => ({ clusters: new Map(), quota: new Map() });

export function claimClusters({ clusters }: Claims, job: JobId, wanted: Iterable<ClusterId>): void {
  for (const cluster of wanted) {
    const jobs = clusters.get(cluster);
    if (jobs === undefined) clusters.set(cluster, [job]);
    else if (jobs.length < MAX_HOLDERS) jobs.push(job);
  }
}

/** `wanted`: GPUs by the key of the quota that they would count against. */
export function claimQuota(
  { quota }: Claims,
  { jobId, tenant }: { readonly jobId: JobId; readonly tenant: TenantId },
  wanted: ReadonlyMap<string, number>,
): void {
  for (const [key, gpus] of wanted) {
    const claims = quota.get(tenant) ?? new Map<string, QuotaClaim>();
    const { gpus: before, jobs } = claims.get(key) ?? { gpus: 0, jobs: [] };
    quota.set(
      tenant,
      claims.set(key, {
        gpus: before + gpus,
        jobs: jobs.length < MAX_HOLDERS ? [...jobs, jobId] : jobs,
      }),
    );
  }
}

export const quotaClaim = ({ quota }: Claims, tenant: TenantId, key: string): QuotaClaim =>
  quota.get(tenant)?.get(key) ?? NONE;

const NONE: QuotaClaim = { gpus: 0, jobs: [] };
