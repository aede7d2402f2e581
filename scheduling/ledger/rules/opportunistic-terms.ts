/**
 * @file The terms of opportunistic backfill: which jobs may run on GPUs that are reserved for a waiting job, and when they are evicted.
 *
 * Such a job is a preemptible training job that writes a checkpoint on order, within a minute, and asks for no longer protected time than
 * its class has: an eviction at any time costs it seconds. It is evicted only when the owner of the reservation waits for nothing else: each
 * GPU of the owner's placement is free, is being given up already, or is in opportunistic use. So no job is evicted before the owner's
 * placement is known, and each round of evictions starts a gang. Cost: O(hosts of the placement + leases there).
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { DEFAULT_PREEMPTION } from "../../../domain/job/job.ts";
import {
  popCount,
  type GangRequest,
  type Lease,
  type Reservation,
} from "../../../domain/lease/lease.ts";
import { maskIn, sharedGpus } from "./reservation-index.ts";

/** No opportunistic job may take longer for its checkpoint: by so much, at most, it delays the start of the reservation's job. */
const MAX_GRACE_MS = 60_000;

export function mayBackfillOn({
  class: jobClass,
  preemption,
  checkpoint,
  slots,
}: Pick<GangRequest, "class" | "preemption" | "checkpoint" | "slots">): boolean {
  const usual = DEFAULT_PREEMPTION[jobClass];
  const { isPreemptible, minRuntimeMs } = preemption ?? usual;
  return (
    jobClass === "training" &&
    slots === undefined &&
    checkpoint !== undefined &&
    checkpoint.graceMs <= MAX_GRACE_MS &&
    isPreemptible &&
    minRuntimeMs <= usual.minRuntimeMs
  );
}

/** Whether the lease uses GPUs of this reservation opportunistically. */
export const usesReservationOf = (
  { gpus }: Pick<Reservation, "gpus">,
  { opportunistic }: Lease,
): boolean => opportunistic !== undefined && sharedGpus(opportunistic.gpus, gpus).length > 0;

/** How many GPUs of the reservation are leased, not in opportunistic use, and not being given up: its job waits for those. */
export function neededBeside({ gpus }: Pick<Reservation, "gpus">, leases: Iterable<Lease>): number {
  const masks = new Map(gpus.map(({ host, mask }) => [host, mask]));
  let needed = 0;
  for (const { gpus: held, opportunistic, eviction, state } of leases) {
    if (eviction !== undefined || state === "vacating") continue;
    for (const { host, mask } of held)
      needed += popCount((masks.get(host) ?? 0) & mask & ~maskIn(opportunistic?.gpus ?? [], host));
  }
  return needed;
}
