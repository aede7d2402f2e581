/**
 * @file The inference headroom: free GPUs that only inference jobs may take, so that one that arrives need not wait for a checkpoint.
 *
 * A base-stock policy. The target is the rise of inference demand within the time that a refill takes, which is exceeded in at most
 * `MISS_SHARE` of the seconds of the last ten minutes. A refill takes the grace of a checkpoint, by the mean of the GPUs whose jobs may be
 * evicted, and what is left of a second; where none may be, GPUs come free by natural ends alone, within `NATURAL_LEAD_S`.
 * Without arrivals there is no headroom; it has at most `maxReserveShare` of the fleet. Other jobs may not take the last free GPUs below
 * the target, so natural ends refill it first.
 * The GPUs come from the hosts with the most free GPUs, in whole hosts if there are, so that gangs of a host find a place as well as single
 * GPUs; only of GPU types that inference jobs hold, where any holds one. Ties by the fleet's order and the lowest GPUs.
 * Figures: docs/decisions/0118-lead-of-a-refill.md. Cost: O(window + leases + hosts · log hosts).
 */

import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import { gpuCountOf, popCount, type HostGpus } from "../../domain/lease/lease.ts";
import { lowestBits } from "../../lib/bits.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import type { PoolHost } from "../capacity/host-pools.ts";
import { risesOf, SLOT_MS } from "../ledger/rules/inference-demand.ts";
import type { DemandTrace, Ledger } from "../ledger/ledger.ts";
import { evictableAtMs } from "../preemption/eviction-cost.ts";

/** With shorter ones the headroom ran dry in bursts where natural ends alone refill it (decision 17); the longest there is. */
const NATURAL_LEAD_S = 30;
const SECOND_MS = 1_000;
/** The rise may exceed the headroom in at most this part of the seconds. */
const MISS_SHARE = 0.002;
/** Most hosts have this many GPUs, and inference gangs at most this many. */
const HOST_GPUS = 8;

export interface HeadroomPlan {
  /** GPUs that should be free. */
  readonly targetGpus: number;
  /** Free GPUs to reserve: the target, or all that there are. */
  readonly gpus: readonly HostGpus[];
}

/** Of GPUs that are free now and reserved for no job. */
export function planHeadroom(ledger: Ledger, capacity: Capacity, nowMs: number): HeadroomPlan {
  const targetGpus = headroomTarget(ledger, capacity, nowMs);
  return { targetGpus, gpus: headroomGpus(ledger, capacity, targetGpus) };
}

/** So many GPUs of those that are free now and reserved for no job, or all of them. */
export function headroomGpus(
  ledger: Ledger,
  capacity: Capacity,
  targetGpus: number,
): readonly HostGpus[] {
  if (targetGpus === 0) return [];
  const types = typesOf(ledger, capacity);
  const free: PoolHost[] = [];
  for (const pool of capacity.pools) {
    if (types.size > 0 && !types.has(pool.gpuType)) continue;
    for (const host of pool.hosts) if (host.freeMask !== 0) free.push(host);
  }
  free.sort((a, b) => popCount(b.freeMask) - popCount(a.freeMask) || a.at.order - b.at.order);
  const gpus: HostGpus[] = [];
  let left = targetGpus;
  for (const { id, freeMask } of free) {
    if (left <= 0) break;
    const mask = lowestBits(freeMask, left);
    left -= popCount(mask);
    gpus.push({ host: id, mask });
  }
  return gpus;
}

/** GPUs that should be free for inference. */
export function headroomTarget(
  ledger: Ledger,
  { pools }: Pick<Capacity, "pools">,
  nowMs: number,
): number {
  const { latencyDemand, shape } = ledger;
  if (latencyDemand === undefined) return 0;
  const rise = wholeHosts(expectedRise(latencyDemand, refillLeadS(ledger), nowMs));
  const { maxReserveShare } = shape.policy ?? DEFAULT_POLICY;
  return Math.min(rise, shareOfFleet({ pools }, maxReserveShare));
}

/** Whole GPUs of those that may be used now. */
export const shareOfFleet = ({ pools }: Pick<Capacity, "pools">, share: number): number =>
  Math.floor(share * pools.reduce((sum, { tallies }) => sum + tallies.idle.gpus, 0));

/** Computed once a second for each trace and lead: seconds that are over do not change any more. */
function expectedRise(trace: DemandTrace, leadS: number, nowMs: number): number {
  const second = Math.floor(nowMs / SLOT_MS);
  const known = KNOWN_RISES.get(trace.slots);
  if (known?.second === second && known.leadS === leadS) return known.rise;
  const rises = risesOf(trace, { nowMs, leadS });
  const rise = highest(rises, rises.length - Math.ceil(rises.length * (1 - MISS_SHARE)));
  KNOWN_RISES.set(trace.slots, { second, leadS, rise });
  return rise;
}

/** The highest of all but the `count` highest ones; 0 of none. Cost: O(values · count), and `count` is one or two of ten minutes. */
function highest(values: Float64Array, count: number): number {
  const top = new Float64Array(count + 1).fill(-Infinity);
  for (const value of values) {
    let at = count;
    if (value <= (top[at] ?? 0)) continue;
    for (; at > 0 && value > (top[at - 1] ?? 0); at -= 1) top[at] = top[at - 1] ?? 0;
    top[at] = value;
  }
  return values.length === 0 ? 0 : (top[count] ?? 0);
}

/** Seconds, whole ones because the trace has no finer ones: a rise within any time of the length lies in one of them. */
function refillLeadS({ leases, shape }: Ledger): number {
  if (!(shape.policy ?? DEFAULT_POLICY).isPreempting) return NATURAL_LEAD_S;
  let gpus = 0;
  let sumMs = 0;
  for (const lease of leases.values()) {
    const { checkpoint } = lease.terms ?? {};
    if (checkpoint === undefined || evictableAtMs(lease) === Infinity) continue;
    const count = gpuCountOf(lease.gpus);
    gpus += count;
    sumMs += count * checkpoint.graceMs;
  }
  if (gpus === 0) return NATURAL_LEAD_S;
  return Math.min(NATURAL_LEAD_S, 1 + Math.ceil(sumMs / gpus / SECOND_MS));
}

const KNOWN_RISES = new WeakMap<
  DemandTrace["slots"],
  { readonly second: number; readonly leadS: number; readonly rise: number }
>();

/** A gang of a host's size finds a place in it, too. */
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
