/**
 * @file Finds the preemption that a waiting job would cause later: its victims hold GPUs that are due to it, but are still protected.
 *
 * The fleet's own cycle decides at each of the next times at which the protection of a lease ends, as if nothing arrived or ended before.
 * Cost: at most `MAX_TIMES` cycles.
 */

import type { JobId, LeaseId } from "../../domain/values/ids.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import type { DecidePorts, Policies } from "../cycle/cycle.ts";
import { decide } from "../cycle/decide.ts";
import { evictableAtMs } from "../preemption/eviction-cost.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Number of times that are tried. */
const MAX_TIMES = 8;
/** Protection that ends later is not reported: the fleet changes before. */
const WITHIN_MS = 600_000;

export interface Eviction {
  /** GPUs on which the job would run. */
  readonly gpus: readonly HostGpus[];
  readonly victims: readonly Victim[];
}

export interface Victim {
  readonly lease: LeaseId;
  readonly jobId: JobId;
  readonly lostGpuSeconds: number;
  readonly reason: string;
}

export interface LaterPreemption extends Eviction {
  readonly atMs: number;
}

export interface LaterOptions {
  readonly nowMs: number;
  readonly ports?: DecidePorts;
  readonly policies?: Policies;
}

/** Undefined where the job would preempt no lease, or starts without preemption. */
export function laterPreemption(
  ledger: Ledger,
  job: JobId,
  { nowMs, ports, policies }: LaterOptions,
): LaterPreemption | undefined {
  const times = new Set<number>();
  for (const lease of ledger.leases.values()) {
    const atMs = evictableAtMs(lease);
    if (atMs > nowMs && atMs <= nowMs + WITHIN_MS) times.add(atMs);
  }
  for (const atMs of [...times].sort((a, b) => a - b).slice(0, MAX_TIMES)) {
    const plan = decide(ledger, atMs, ports, policies && { policies });
    if (plan.items.some(({ request }) => request.jobId === job)) return undefined;
    const eviction = evictionFor(plan, ledger, job);
    if (eviction !== undefined) return { atMs, ...eviction };
  }
  return undefined;
}

/** The evictions of a plan that are made for the job. */
export function evictionFor(plan: Plan, { leases }: Ledger, job: JobId): Eviction | undefined {
  const victims = (plan.evict ?? []).flatMap((item): Victim[] => {
    const lease = leases.get(item.lease);
    if (item.forJob !== job || lease === undefined) return [];
    const { lostGpuSeconds, reason } = item;
    return [{ lease: item.lease, jobId: lease.jobId, lostGpuSeconds, reason }];
  });
  if (victims.length === 0) return undefined;
  return { gpus: plan.reserve?.find((item) => item.jobId === job)?.gpus ?? [], victims };
}
