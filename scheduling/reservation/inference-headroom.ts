/**
 * @file The inference headroom: free GPUs that only inference jobs may take, so that one that arrives need not wait for a checkpoint.
 *
 * A base-stock policy. The target is the rise of inference demand within `LEAD_S` seconds, which is exceeded in at most `MISS_SHARE` of the
 * seconds of the last ten minutes: natural ends may take that long to refill the headroom. Without arrivals there is no headroom; it has
 * at most `maxReserveShare` of the fleet. Other jobs may not take the last free GPUs below the target, so natural ends refill it first.
 * The GPUs come from the hosts with the most free GPUs, in whole hosts if there are, so that gangs of a host find a place as well as single
 * GPUs; only of GPU types that inference jobs hold, where any holds one. Ties by the fleet's order and the lowest GPUs.
 * Figures: docs/decisions/0017-inference-headroom.md. Cost: O(window + hosts · log hosts).
 */

import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import { lowestBits } from "../../lib/bits.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import type { PoolHost } from "../capacity/host-pools.ts";
import { risesOf, SLOT_MS } from "../ledger/rules/inference-demand.ts";
import type { DemandTrace, Ledger } from "../ledger/ledger.ts";

/** With shorter ones the headroom ran dry in bursts: natural ends refill it, not evictions (decision 17). */
const LEAD_S = 30;
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
  if (targetGpus === 0) return { targetGpus, gpus: [] };
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
  return { targetGpus, gpus };
}

/** GPUs that should be free for inference. */
export function headroomTarget(
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

/** Computed once a second for each trace: seconds that are over do not change any more. */
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
