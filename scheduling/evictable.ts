/**
 * @file When a lease may be taken from its job, and what work that would lose.
 *
 * Taken may be who allows it, has run for its protected time, is not stopping already, and is not an array's.
 * Loss: GPUs · min(time since the grant, since the last checkpoint, or what a checkpoint to order costs), in GPU-seconds.
 */

import { gpuCountOf, type Lease } from "../domain/lease.ts";
import { preemptionOf } from "./apply-preempt.ts";

/** What a checkpoint is taken to cost where it is not known better; its grace, where that is less. */
export const CHECKPOINT_COST_MS = 2_000;

/** Whether it may be taken from its job at all, from this time on. */
export const isEvictable = (lease: Lease, nowMs: number): boolean => evictableAtMs(lease) <= nowMs;

/** When the lease's protected time is over; infinite when it is never taken. */
export function evictableAtMs(lease: Lease): number {
  const { terms, state, slots, eviction, isDoubted } = lease;
  const rule = preemptionOf(lease);
  const isOut =
    terms === undefined || state === "vacating" || slots !== undefined || isDoubted === true;
  if (isOut || eviction !== undefined || !rule.isPreemptible) return Infinity;
  return lease.grantedAtMs + rule.minRuntimeMs;
}

/** GPU-seconds of work that are lost when the lease is given up now. */
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
