/**
 * @file Lists the eviction orders to send and the jobs whose leases the fleet revoked, and says when a shrunk gang may grow.
 *
 * Pure functions of the ledger. An order goes to a job that has its grant; until it is delivered, the ledger may withdraw it. A job
 * stops its run within the checkpoint's time and its own graces, and its hosts enforce that. If a job does nothing (its workflow is
 * stuck, its worker gone), the ledger revokes the lease by its clock: the lease turns vacating, its hosts are swept, and the job is
 * notified. Cost: O(leases).
 */

import type { EvictionOrder, Loss } from "../../protocol/control-contract.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import { gpuCountOf, isShrunk, type Lease } from "../../domain/lease/lease.ts";
import { limitsOf } from "../../domain/lease/preemption-limits.ts";
import { revokeAfterMs } from "../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

type Holdings = Pick<Ledger, "leases" | "requests">;

export function unsentOrders({
  leases,
  requests,
  shape,
}: Holdings & Pick<Ledger, "shape">): readonly EvictionOrder[] {
  const limits = limitsOf(shape.policy ?? DEFAULT_POLICY);
  return [...leases.values()].flatMap((lease) => {
    const { eviction, state, jobId, runId, seq, id } = lease;
    if (eviction === undefined || eviction.isSent === true || state !== "held") return [];
    const { forJob, keep } = eviction;
    const order = {
      seq,
      lease: id,
      forJob,
      reason: reasonOf(lease, forJob, requests),
      ...(keep !== undefined && { keep }),
      graceMs: revokeAfterMs(lease),
      ...(limits !== undefined && { limits }),
    };
    return [{ jobId, runId, order }];
  });
}

/** Leases that were revoked, unless their jobs have gone on since: those wait with a new request, or hold another lease. */
export function revokedLosses({ leases, requests }: Holdings): readonly Loss[] {
  const revoked = [...leases.values()].filter(
    ({ state, eviction }) => state === "vacating" && eviction?.isSent === true,
  );
  if (revoked.length === 0) return [];
  const newest = new Map<JobId, number>();
  for (const { jobId, seq } of [...leases.values(), ...requests.values()])
    newest.set(jobId, Math.max(seq, newest.get(jobId) ?? 0));
  return revoked
    .filter(({ jobId, seq }) => newest.get(jobId) === seq)
    .map(({ id, jobId, runId, gpus }) => {
      return { jobId, runId, lease: id, hosts: gpus.map(({ host }) => host) };
    });
}

/** Whether any gang runs on fewer GPUs than it asked for. */
export const mayAnyGrow = (ledger: Pick<Ledger, "leases">): boolean => growable(ledger).length > 0;

/** When the next of these gangs has run long enough to be stopped for growing, even if nothing else happens; infinite when none is left. */
export const nextGrowthAtMs = (ledger: Pick<Ledger, "leases">, nowMs: number): number =>
  growable(ledger)
    .map(({ grantedAtMs, terms }) => {
      const { minRuntimeMs = 0 } = terms?.preemption ?? {};
      return grantedAtMs + Math.max(GROW_AFTER_MS, minRuntimeMs);
    })
    .filter((atMs) => atMs > nowMs)
    .reduce((least, atMs) => Math.min(least, atMs), Infinity);

/** The same as in `scheduling/preemption/scale-up.ts`; a cycle that comes too early or too late only costs time. */
const GROW_AFTER_MS = 60_000;

const growable = ({ leases }: Pick<Ledger, "leases">): readonly Lease[] =>
  [...leases.values()].filter(
    (lease) => isShrunk(lease) && lease.state !== "vacating" && lease.eviction === undefined,
  );

function reasonOf(
  { jobId, gpus, terms }: Lease,
  forJob: JobId,
  requests: Ledger["requests"],
): string {
  if (forJob === jobId)
    return `all ${terms?.gang.gpus ?? "its"} GPUs of its gang are available; it runs on ${gpuCountOf(gpus)}`;
  const request = requests.get(forJob);
  if (request === undefined) return `its GPUs are due to ${forJob}`;
  return `its GPUs are due to ${request.name} (${request.class}, tenant ${request.tenant})`;
}
