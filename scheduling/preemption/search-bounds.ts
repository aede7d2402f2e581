/**
 * @file What a search for victims cannot reach, by counts alone: more GPUs than are open and given up, a loss below that of the cheapest, or a
 * place in fewer clusters than have so many.
 *
 * Necessary conditions, so what is found does not depend on them; nothing is taken off the capacity. A search takes its GPUs out of those that
 * are open or reserved for the request and those of victims, and gives up a whole victim for any part of it.
 * Cost: O(k log k) for the loss of k victims, O(hosts of the victims) for the place.
 */

import type { ClusterId } from "../../domain/values/ids.ts";
import { gpuCountOf, popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { fitsOf, type CycleView } from "../admission/feasibility.ts";
import { floorOf } from "../admission/gang-size.ts";
import type { Capacity, TypeOptions } from "../capacity/capacity-state.ts";
import { offersAt } from "../capacity/capacity.ts";
import { outlookOf } from "../capacity/release-profile.ts";
import { canShrink } from "../ledger/rules/grant-check.ts";
import { wattsLimit } from "../ledger/rules/limits.ts";
import { maskIn } from "../ledger/rules/reservation-index.ts";
import { largestGang } from "../placement/placement-policy.ts";
import type { Victim } from "./candidate-index.ts";
import { mostWorthOf } from "./placement-bounds.ts";

/** Of a loss: those of several leases are sums of floats. */
const LOSS_ERROR = 1e-9;

/**
 * GPU-seconds that any choice of these victims loses at least with which the request has as many GPUs as it wants; infinite where all of
 * them are not enough.
 */
export function leastLossFor(
  request: PendingRequest,
  wanted: number,
  {
    victims,
    lossOf,
    capacity,
  }: {
    readonly victims: readonly Victim[];
    readonly lossOf: (victim: Victim) => number;
    readonly capacity: Capacity;
  },
): number {
  const needed = wanted - mostOpenTo(request, capacity);
  if (needed > gpusOf(victims)) return Infinity;
  const losses = victims.map((victim) => {
    const loss = lossOf(victim);
    return { loss, perGpu: loss / victim.gpus, gpus: victim.gpus };
  });
  const cheapest = losses.reduce((least, { loss }) => Math.min(least, loss), Infinity);
  let left = needed;
  let loss = 0;
  for (const { perGpu, gpus: most } of losses.sort((a, b) => a.perGpu - b.perGpu)) {
    if (left <= 0) break;
    const gpus = Math.min(left, most);
    left -= gpus;
    loss += perGpu * gpus;
  }
  return Math.max(loss, cheapest) * (1 - LOSS_ERROR);
}

/** Whether so many GPUs may lie together, and well enough to be worth waiting for, once all of these victims are gone. */
export function mayLieWithout(
  request: PendingRequest,
  wanted: number,
  { victims, view }: { readonly victims: readonly Victim[]; readonly view: CycleView },
): boolean {
  const { capacity } = view;
  if (isByNeed(capacity)) return true;
  const gains = gainsOf(request, victims, capacity);
  const given = gpusOf(victims);
  return fitsOf(request, view).some(({ type, room }) => {
    if (type.shape.isSameHost || !isCountable(request, type, capacity)) return true;
    const offers = offersAt(capacity, type, "now").map((offer) => ({
      ...offer,
      gpus: offer.gpus + (gains.get(offer.cluster) ?? 0),
    }));
    // What a victim of the same tenant holds comes back to its quota.
    if (Math.min(room + given, largestGang(type.shape, offers)) < wanted) return false;
    const isFloored = canShrink(request.gang);
    return (
      !isFloored ||
      mostWorthOf(type, offers, { gpus: wanted, capacity }) >= floorOf(request, type, view)
    );
  });
}

const gpusOf = (victims: readonly Victim[]): number =>
  victims.reduce((sum, { gpus }) => sum + gpus, 0);

/** Watts that a lease gives back may serve more GPUs than it had, and a host that it keeps others of its label off has more GPUs than it has there. */
const isCountable = (
  { constraints }: PendingRequest,
  { groups, closed }: TypeOptions,
  { sites }: Capacity,
): boolean =>
  (constraints.antiAffinity === undefined || closed.size === 0) &&
  groups.every(({ cluster }) => wattsLimit(cluster) === Infinity && !sites.has(cluster.site));

/** GPUs that the request could have beside the open ones, by cluster: of its own reservation, and of victims where nobody else has reserved them. */
function gainsOf(
  { jobId }: PendingRequest,
  victims: readonly Victim[],
  { hosts, reserved }: Capacity,
): ReadonlyMap<ClusterId, number> {
  const own = reserved.byJob.get(jobId)?.gpus ?? [];
  const gains = new Map<ClusterId, number>();
  const gain = (
    gpus: readonly HostGpus[],
    ofMask: (host: HostGpus, kept: number, leased: number) => number,
  ): void => {
    for (const part of gpus) {
      const host = hosts.get(part.host);
      if (host === undefined) continue;
      const { id } = host.pool.cluster;
      const more = popCount(ofMask(part, host.reservedMask, host.leasedMask));
      gains.set(id, (gains.get(id) ?? 0) + more);
    }
  };
  gain(own, ({ mask }, _kept, leased) => mask & ~leased);
  for (const { lease } of victims)
    gain(lease.gpus, ({ host, mask }, kept) => mask & ~(kept & ~maskIn(own, host)));
  return gains;
}

/** Where processors and memory count, a lease may leave more GPUs to others than it has. */
const isByNeed = ({ index, usage }: Capacity): boolean =>
  index.hasResources || usage.uneven.size > 0;

/** No more GPUs are open to the request, its own reservation included. */
function mostOpenTo({ jobId }: PendingRequest, capacity: Capacity): number {
  const { pools, reserved } = capacity;
  if (isByNeed(capacity)) return Infinity;
  const open = pools.reduce((sum, { tallies }) => sum + tallies.open.gpus, 0);
  const own = reserved.byJob.get(jobId)?.gpus ?? [];
  const { missing, opportunistic } = outlookOf(own, capacity);
  return open + gpuCountOf(own) - missing - opportunistic;
}
