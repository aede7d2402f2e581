/** @file The jobs that use none of their GPUs, by the rules of their tenants. Pure. */

import type { IdleRule } from "../../domain/fleet/fleet.ts";
import { popCount, type Lease } from "../../domain/lease/lease.ts";
import { sumOfUse, usesIn, type GpuUse } from "../../domain/lease/gpu-use.ts";
import type { JobId, TenantId } from "../../domain/values/ids.ts";
import type { JobClass } from "../../domain/job/job.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { FleetUse } from "./follow-use.ts";

export interface IdleJob {
  readonly job: JobId;
  readonly tenant: TenantId;
  readonly class: JobClass;
  readonly gpus: number;
  readonly idleMs: number;
  readonly rule: IdleRule;
  /** Its newest lease: of one idle time, and no later one. */
  readonly lease: string;
  readonly leases: readonly string[];
}

/** What agents say of the GPUs of a lease; undefined where one says nothing, or where the lease is being given back. */
export function useOfLease(lease: Lease, use: FleetUse): readonly GpuUse[] | undefined {
  if (lease.state !== "held" || lease.eviction !== undefined) return undefined;
  const found = lease.gpus.flatMap(({ host, mask }) => usesIn(use.get(host), mask));
  return found.length === lease.gpus.reduce((sum, { mask }) => sum + popCount(mask), 0)
    ? found
    : undefined;
}

/** A job is idle while all of its leases are. It is idle from its grant on at the earliest, so a former job's idle time is not its own. */
export function idleJobs(
  { leases }: Pick<Ledger, "leases">,
  use: FleetUse,
  { rules, nowMs }: { readonly rules: ReadonlyMap<TenantId, IdleRule>; readonly nowMs: number },
): readonly IdleJob[] {
  const jobs = new Map<JobId, Lease[]>();
  for (const lease of leases.values())
    if (rules.has(lease.tenant)) jobs.set(lease.jobId, [...(jobs.get(lease.jobId) ?? []), lease]);
  return [...jobs].flatMap(([job, own]) => {
    const told = own.map((lease) => ({ lease, gpus: useOfLease(lease, use) }));
    const last = told.at(-1)?.lease;
    const rule = last && rules.get(last.tenant);
    if (last === undefined || rule === undefined) return [];
    const idleMs = Math.min(
      ...told.map(({ lease, gpus }) =>
        gpus === undefined ? 0 : Math.min(sumOfUse(gpus).idleMs, nowMs - lease.grantedAtMs),
      ),
    );
    if (idleMs < rule.afterMs) return [];
    const gpus = told.reduce((sum, one) => sum + (one.gpus?.length ?? 0), 0);
    const { tenant, class: name, id: lease } = last;
    return [
      { job, tenant, class: name, gpus, idleMs, rule, lease, leases: own.map(({ id }) => id) },
    ];
  });
}
