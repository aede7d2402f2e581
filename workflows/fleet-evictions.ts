/**
 * @file Evictions on their way: which orders are to be sent to which jobs, and which leases are taken back because an order came to nothing.
 *
 * Pure functions of the ledger. An order goes to a job that has its grant; until it is delivered, the eviction may be withdrawn. A
 * job stops its run within the checkpoint's time and its own graces, and its hosts see to that; only a job that does nothing (its
 * workflow is stuck, its worker gone) lets the clock here run out: then its lease turns vacating, its hosts are swept, and it is told.
 * Cost: O(leases), once for each change of the leases.
 */

import type { EvictionOrder } from "../activities/control-contract.ts";
import type { JobId } from "../domain/ids.ts";
import { gpuCountOf, type Eviction, type Lease } from "../domain/lease.ts";
import type { InboxEntry, Ledger } from "../scheduling/ledger.ts";

/** On top of the time for a checkpoint: for the graces of the processes, and for an order that meets an agent that is just restarting. */
const REVOKE_SLACK_MS = 180_000;

export interface Evictions {
  readonly unsent: readonly EvictionOrder[];
  /** When the first of those that were sent runs out; infinity when none was. */
  readonly nextRevokeAtMs: number;
}

export function evictionsOf(ledger: Pick<Ledger, "leases" | "requests">): Evictions {
  const unsent: EvictionOrder[] = [];
  let nextRevokeAtMs = Infinity;
  for (const lease of ledger.leases.values()) {
    const { eviction } = lease;
    if (eviction === undefined || lease.state !== "held") continue;
    if (eviction.isSent === true)
      nextRevokeAtMs = Math.min(nextRevokeAtMs, revokeAtMs(lease, eviction));
    else unsent.push(orderOf(lease, eviction, ledger));
  }
  return { unsent, nextRevokeAtMs };
}

/** Those whose time is over, in the words in which their jobs would have given them back. */
export function overdueLeases({ leases }: Pick<Ledger, "leases">, nowMs: number): readonly Lease[] {
  return [...leases.values()].filter(
    (lease) =>
      lease.state === "held" &&
      lease.eviction?.isSent === true &&
      revokeAtMs(lease, lease.eviction) <= nowMs,
  );
}

/** Nothing is known of its hosts: each has to say that nothing runs there. */
export const revocationOf = ({ id, jobId, runId, seq }: Lease): InboxEntry => ({
  kind: "end",
  jobId,
  runId,
  seq,
  lease: id,
  unconfirmedHosts: "all",
});

function orderOf(
  lease: Lease,
  eviction: Eviction,
  { requests }: Pick<Ledger, "requests">,
): EvictionOrder {
  const { jobId, runId, seq, id } = lease;
  const { forJob, keep } = eviction;
  return {
    jobId,
    runId,
    order: {
      seq,
      lease: id,
      forJob,
      reason: reasonOf(lease, forJob, requests),
      ...(keep !== undefined && { keep }),
      graceMs: graceMs(lease),
    },
  };
}

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

const graceMs = ({ terms }: Lease): number => (terms?.checkpoint?.graceMs ?? 0) + REVOKE_SLACK_MS;

const revokeAtMs = (lease: Lease, { atMs }: Eviction): number => atMs + graceMs(lease);
