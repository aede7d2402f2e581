/**
 * @file When a lease may be evicted, and how much work that would lose.
 *
 * A lease may be evicted when its job allows it, its protected time is over, it is not stopping already, and it is not an array's.
 * Loss: GPUs · min(time since the grant, since the last checkpoint, or the cost of a checkpoint on order), in GPU-seconds.
 */

import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import { preemptionOf } from "../ledger/apply/apply-evictions.ts";

/** The assumed cost of a checkpoint; its grace, where that is less. */
const CHECKPOINT_COST_MS = 2_000;

/** Whether the lease may be evicted at this time. */
export const isEvictable = (lease: Lease, nowMs: number): boolean => evictableAtMs(lease) <= nowMs;

/** When the lease's protected time is over; infinite when it is never evicted. */
export function evictableAtMs(lease: Lease): number {
  const { terms, state, slots, eviction, isUnconfirmed } = lease;
  const rule = preemptionOf(lease);
  const isOut =
    terms === undefined || state === "vacating" || slots !== undefined || isUnconfirmed === true;
  if (isOut || eviction !== undefined || !rule.isPreemptible) return Infinity;
  return lease.grantedAtMs + rule.minRuntimeMs;
}

/** GPU-seconds of work that an eviction now would lose. */
export function lossOf(
  { gpus, grantedAtMs, checkpointedAtMs, terms }: Lease,
  nowMs: number,
): number {
  const sinceMs = nowMs - Math.max(grantedAtMs, checkpointedAtMs ?? grantedAtMs);
  const orderMs =
    terms?.checkpoint === undefined
      ? Infinity
      : Math.min(CHECKPOINT_COST_MS, terms.checkpoint.graceMs);
  return (gpuCountOf(gpus) * Math.max(0, Math.min(sinceMs, orderMs))) / 1_000;
}
