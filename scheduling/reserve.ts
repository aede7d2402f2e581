/**
 * @file The latency reserve: which free GPUs only inference jobs may take, so that one that arrives need not wait for a checkpoint.
 *
 * A base-stock policy. As many GPUs are to be free as inference demand has risen by within `LEAD_S` seconds, in all but `MISS_SHARE` of the
 * seconds of the last ten minutes: so long it may take until natural ends have refilled the stock. No
 * arrivals, no reserve; at most `maxReserveShare` of the fleet. Other jobs may not take the last free GPUs below it, so natural
 * ends refill it first.
 * Which GPUs: from the hosts with the most free GPUs, in whole hosts if there are, so that not only single GPUs find their place but gangs
 * of a host as well. Only of GPU types that inference jobs have, where any has one. Ties by the fleet's order and the lowest GPUs.
 * Why so, with figures: docs/decisions/0017. Cost: O(window + hosts · log hosts).
 */

import { DEFAULT_POLICY } from "../domain/fleet.ts";
import { popCount, type HostGpus } from "../domain/lease.ts";
import { lowestBits } from "../lib/bits.ts";
import type { Capacity } from "./capacity.ts";
import type { PoolHost } from "./host-pools.ts";
import { risesOf, SLOT_MS } from "./latency-demand.ts";
import type { DemandTrace, Ledger } from "./ledger.ts";

/** Shorter ones ran dry in bursts: the stock is refilled by ends, not by orders (decision 17). */
export const LEAD_S = 30;
/** In so large a part of the seconds at most the rise may be larger than the reserve. */
export const MISS_SHARE = 0.002;
/** Most hosts have so many GPUs, and inference gangs so many at most. */
const HOST_GPUS = 8;

export interface LatencyReserve {
  /** What ought to be free. */
  readonly targetGpus: number;
  /** What is kept of what is free: the target, or all that there is. */
  readonly gpus: readonly HostGpus[];
}

/** On what is free now and set apart for nobody. */
export function reservedForLatency(
  ledger: Ledger,
  capacity: Capacity,
  nowMs: number,
): LatencyReserve {
  const targetGpus = latencyTarget(ledger, capacity, nowMs);
  if (targetGpus === 0) return { targetGpus, gpus: [] };
  const types = typesOf(ledger, capacity);
  const free: PoolHost[] = [];
  for (const pool of capacity.pools) {
    if (types.size > 0 && !types.has(pool.gpuType)) continue;
    for (const host of pool.hosts) if (host.freeMask !== 0) free.push(host);
  }
  free.sort((a, b) => popCount(b.freeMask) - popCount(a.freeMask) || a.at.order - b.at.order);
  const kept: HostGpus[] = [];
  let left = targetGpus;
  for (const { id, freeMask } of free) {
    if (left <= 0) break;
    const mask = lowestBits(freeMask, left);
    left -= popCount(mask);
    kept.push({ host: id, mask });
  }
  return { targetGpus, gpus: kept };
}

/** GPUs that are to be free for inference. */
export function latencyTarget(
  { latencyDemand, shape }: Ledger,
  { pools }: Pick<Capacity, "pools">,
  nowMs: number,
): number {
  if (latencyDemand === undefined) return 0;
  const rise = wholeHosts(expectedRise(latencyDemand, nowMs));
  const fleetGpus = pools.reduce((sum, { tallies }) => sum + tallies.idle.gpus, 0);
  const { maxReserveShare } = shape.policy ?? DEFAULT_POLICY;
  return Math.min(rise, Math.floor(maxReserveShare * fleetGpus));
}

/** Worked out once a second for each trace: seconds that are over do not change any more. */
function expectedRise(trace: DemandTrace, nowMs: number): number {
  const second = Math.floor(nowMs / SLOT_MS);
  const known = KNOWN_RISES.get(trace.slots);
  if (known?.second === second) return known.rise;
  const rises = risesOf(trace, { nowMs, leadS: LEAD_S });
  const rise = rises[Math.ceil(rises.length * (1 - MISS_SHARE)) - 1] ?? 0;
  KNOWN_RISES.set(trace.slots, { second, rise });
  return rise;
}

const KNOWN_RISES = new WeakMap<
  DemandTrace["slots"],
  { readonly second: number; readonly rise: number }
>();

/** So that a gang of a host's size finds its place in it, too. */
const wholeHosts = (gpus: number): number => Math.ceil(gpus / HOST_GPUS) * HOST_GPUS;

/** GPU types that inference jobs have now. */
function typesOf({ leases }: Ledger, { hosts }: Capacity): ReadonlySet<string> {
  const types = new Set<string>();
  for (const { class: jobClass, gpus } of leases.values()) {
    if (jobClass !== "inference") continue;
    for (const { host } of gpus) {
      const known = hosts.get(host);
      if (known !== undefined) types.add(known.pool.gpuType);
    }
  }
  return types;
}
