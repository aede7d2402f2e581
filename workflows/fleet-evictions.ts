/**
 * @file Evictions on their way: which orders are to be sent to which jobs, and who is told that its lease was taken back.
 *
 * Pure functions of the ledger. An order goes to a job that has its grant; until it is delivered, the ledger may withdraw it. A job
 * stops its run within the checkpoint's time and its own graces, and its hosts see to that; only of a job that does nothing (its
 * workflow is stuck, its worker gone) the ledger revokes the lease by its clock: it turns vacating, its hosts are swept, and the job is
 * told. Cost: O(leases).
 */

import type { EvictionOrder, Loss } from "../activities/control-contract.ts";
import type { JobId } from "../domain/ids.ts";
import { gpuCountOf, isShrunk, type Lease } from "../domain/lease.ts";
import { revokeAfterMs } from "../scheduling/apply.ts";
import type { Ledger } from "../scheduling/ledger.ts";

type Book = Pick<Ledger, "leases" | "requests">;

export function unsentOrders({ leases, requests }: Book): readonly EvictionOrder[] {
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
    };
    return [{ jobId, runId, order }];
  });
}

/** Leases that were taken back, as far as their jobs have not gone on since: those have asked anew, or hold another lease. */
export function revokedLosses({ leases, requests }: Book): readonly Loss[] {
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

/** Whether there is a gang that is smaller than it would like to be. */
export const mayAnyGrow = (ledger: Pick<Ledger, "leases">): boolean => growable(ledger).length > 0;

/** When the next of them is old enough to be stopped for growing; a cycle at that time may do it though nothing else has happened. */
export function nextGrowthAtMs(ledger: Pick<Ledger, "leases">, nowMs: number): number | undefined {
  const nextAtMs = growable(ledger)
    .map(({ grantedAtMs, terms }) => {
      const { minRuntimeMs = 0 } = terms?.preemption ?? {};
      return grantedAtMs + Math.max(GROW_AFTER_MS, minRuntimeMs);
    })
    .filter((atMs) => atMs > nowMs)
    .reduce((least, atMs) => Math.min(least, atMs), Infinity);
  return nextAtMs < Infinity ? nextAtMs : undefined;
}

/** As `scheduling/growth.ts` has it; a cycle that comes too early or too late only costs time. */
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
    return `all ${terms?.gang.gpus ?? "its"} GPUs of its gang can be had; it runs on ${gpuCountOf(gpus)}`;
  const request = requests.get(forJob);
  if (request === undefined) return `its GPUs are due to ${forJob}`;
  return `its GPUs are due to ${request.name} (${request.class}, tenant ${request.tenant})`;
}
