/**
 * @file Whom a job that waits would preempt later: those that hold what it is due, but are protected still.
 *
 * The fleet's own cycle decides at each of the next times at which the protection of a lease ends, as if nothing came or ended before.
 * Cost: `MAX_TIMES` cycles at most.
 */

import type { JobId, LeaseId } from "../domain/ids.ts";
import type { HostGpus } from "../domain/lease.ts";
import type { Plan } from "../domain/plan.ts";
import type { DecidePorts, Policies } from "./cycle.ts";
import { decide } from "./decide.ts";
import { evictableAtMs } from "./evictable.ts";
import type { Ledger } from "./ledger.ts";

/** Times that are tried. */
const MAX_TIMES = 8;
/** Protection that ends later than this is not told: something else happens before. */
const WITHIN_MS = 600_000;

export interface Eviction {
  /** Where the job would run. */
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

/** Undefined where nobody would be, or the job starts without it. */
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

/** What a plan takes from others for the job. */
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
