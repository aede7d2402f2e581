/**
 * @file The latency reserve: which free GPUs only inference jobs may take, so that one that arrives need not wait for a checkpoint.
 *
 * A base-stock policy. As many GPUs are to be free as inference demand has risen by within `LEAD_S` seconds, in all but `MISS_SHARE` of the
 * seconds of the last ten minutes: so long it may take until natural ends have refilled the stock. No
 * arrivals, no reserve; at most `maxReserveShare` of the fleet. Other jobs may not take the last free GPUs below it, so natural
 * ends refill it first.
 * Which GPUs: one host's worth for the largest inference gang that is about, on the host with the fewest free GPUs that hold it; the rest are
 * scraps, from the hosts with the fewest free GPUs, so that whole hosts stay open to gangs. Only of GPU types that inference
 * jobs have, where any has one. Ties by the fleet's order and the lowest GPUs.
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
  const { types, largestGang } = usersOf(ledger, capacity);
  const free: PoolHost[] = [];
  for (const pool of capacity.pools) {
    if (types.size > 0 && !types.has(pool.gpuType)) continue;
    for (const host of pool.hosts) if (host.freeMask !== 0) free.push(host);
  }
  free.sort((a, b) => popCount(a.freeMask) - popCount(b.freeMask) || a.at.order - b.at.order);
  const kept: HostGpus[] = [];
  let left = targetGpus;
  const whole = free.find(({ freeMask }) => popCount(freeMask) >= largestGang);
  if (whole !== undefined && largestGang <= left) {
    kept.push({ host: whole.id, mask: lowestBits(whole.freeMask, largestGang) });
    left -= largestGang;
  }
  for (const { id, freeMask } of free) {
    if (left <= 0) break;
    const known = kept.find(({ host }) => host === id);
    const mask = lowestBits(freeMask & ~(known?.mask ?? 0), left);
    left -= popCount(mask);
    if (known !== undefined) kept[0] = { host: id, mask: known.mask | mask };
    else if (mask !== 0) kept.push({ host: id, mask });
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
  const rise = expectedRise(latencyDemand, nowMs);
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

/** GPU types that inference jobs have now, and their largest gang; of hosts' size at most. */
function usersOf(
  { leases, requests }: Ledger,
  { hosts }: Capacity,
): { readonly types: ReadonlySet<string>; readonly largestGang: number } {
  const types = new Set<string>();
  let largestGang = 1;
  for (const { class: jobClass, gpus, terms } of leases.values()) {
    if (jobClass !== "inference") continue;
    for (const { host } of gpus) {
      const known = hosts.get(host);
      if (known !== undefined) types.add(known.pool.gpuType);
    }
    largestGang = Math.max(largestGang, terms?.gang.gpus ?? 1);
  }
  for (const { class: jobClass, gang } of requests.values())
    if (jobClass === "inference") largestGang = Math.max(largestGang, gang.gpus);
  return { types, largestGang };
}
