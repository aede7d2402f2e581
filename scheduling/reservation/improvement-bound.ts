/**
 * @file Cheap necessary condition for a better reservation. False is exact; true means that the full search must decide.
 *
 * The reservation stays on the capacity. Its GPUs are added to the profile of GPUs that are reserved for no job, so the size and the soonest
 * time come out as the search (plan-reservation.ts) would find them. Where the time is the same, the placement policy decides how many
 * GPUs are still leased. The policy is a function of the GPUs that are free by then: where those are as they were at the last search, its
 * answer is, too. Cost: O(leases) a reservation, and O(hosts) where the time is the same; beside the profile.
 */

import type { ClusterShape } from "../../domain/fleet/fleet.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import { hostsOf, offersAt } from "../capacity/capacity.ts";
import {
  endOf,
  freeBy,
  NOTHING,
  unreservedIn,
  outlookOf,
  type EndProfile,
} from "../capacity/release-profile.ts";
import { expectedRunMs } from "../estimates/expected-runtime.ts";
import { isBetter, fitOf, type ReservationOption } from "./plan-reservation.ts";
import { lastSearch, type ReservationSearch } from "./last-search.ts";
import { reservationOptions } from "./reservation-options.ts";
import type { PoolHost } from "../capacity/host-pools.ts";
import { fitsOf, type ClusterFit, type CycleView } from "../admission/feasibility.ts";
import { wattsLimit } from "../ledger/rules/limits.ts";
import type { ClusterOffer } from "../placement/placement-policy.ts";
import type { SizeOffer } from "../admission/gang-size.ts";

/** `own`: the request's reservation, which is usable and on the capacity. */
export function couldImprove(
  request: PendingRequest,
  own: ReservationOption,
  view: CycleView,
): boolean {
  let best: Candidate | undefined;
  for (const fit of fitsOf(request, view)) {
    const candidate = firstToEnd(request, own, { fit, view });
    if (candidate === "unknown") return true;
    if (candidate !== undefined && candidate.endMs < (best?.endMs ?? Infinity)) best = candidate;
  }
  if (best === undefined) return false;
  if (best.atMs < own.readyAtMs) return true;
  const { size, free } = best;
  if (Math.max(0, size - free) >= own.missing) return false;
  const hosts = best.sets.flatMap(({ hosts: all }) => all);
  const last = lastSearch(own.gpus);
  const isSame =
    last?.size === size &&
    last.hosts.length === hosts.length &&
    isAsItWas(last, { own, hosts, view });
  return !isSame || isBetter(fitOf(last.gpus, view), own);
}

/** Ready no later than the reservation. */
interface Candidate {
  readonly atMs: number;
  readonly endMs: number;
  readonly size: number;
  /** GPUs of the sets that are free now. */
  readonly free: number;
  readonly sets: readonly HostSet[];
}

interface HostSet extends ClusterOffer {
  readonly hosts: readonly PoolHost[];
  readonly profiles: readonly EndProfile[];
}

/** As the search would find it; unknown where watts limit it or one host has to hold the gang. */
function firstToEnd(
  request: PendingRequest,
  own: ReservationOption,
  { fit, view }: { readonly fit: ClusterFit; readonly view: CycleView },
): Candidate | "unknown" | undefined {
  const { type, room } = fit;
  const { capacity, nowMs } = view;
  if (type.shape.isSameHost || !type.groups.every(({ cluster }) => hasNoLimit(cluster, capacity)))
    return "unknown";
  const { clusters: ofOwn } = outlookOf(own.gpus, capacity);
  const all: HostSet[] = [];
  for (const offer of offersAt(capacity, type, "reservable")) {
    const mine = ofOwn.get(offer.cluster) ?? NOTHING;
    all.push({
      ...offer,
      gpus: offer.gpus + gpusOf(mine),
      hosts: hostsOf(type, offer.cluster),
      profiles: [unreservedIn(type, offer.cluster), mine],
    });
  }
  const options = reservationOptions(request, { type, room, offers: all }, view);
  if (options === undefined) return undefined;
  let best: Candidate | undefined;
  let isPossible = false;
  const consider = ({ gpus: size, worth }: SizeOffer, sets: readonly HostSet[]): void => {
    const profiles = sets.flatMap((set) => set.profiles);
    const free = profiles.reduce((sum, each) => sum + each.free, 0);
    const atMs = free >= size ? nowMs : Math.max(nowMs, endOf(size - free, profiles));
    isPossible ||= atMs < Infinity;
    const endMs = atMs + expectedRunMs(request, worth);
    if (atMs > own.readyAtMs || endMs >= (best?.endMs ?? Infinity)) return;
    best = { atMs, endMs, size, free, sets };
  };
  for (const { size, offer } of options.inside) consider(size, [offer]);
  if (!isPossible && options.across.length > 0) consider(options.whole, options.across);
  return best;
}

const hasNoLimit = (cluster: ClusterShape, { sites }: Capacity): boolean =>
  wattsLimit(cluster) === Infinity && !sites.has(cluster.site);

const gpusOf = ({ free, ends }: EndProfile): number =>
  ends.reduce((sum, { gpus }) => sum + gpus, free);

function isAsItWas(
  last: ReservationSearch,
  {
    own,
    hosts,
    view,
  }: {
    readonly own: ReservationOption;
    readonly hosts: readonly PoolHost[];
    readonly view: CycleView;
  },
): boolean {
  const { readyAtMs: atMs } = own;
  const { nowMs } = view;
  const mine = ownMasks(own.gpus, view.capacity);
  let at = 0;
  for (const host of hosts) {
    if (host !== last.hosts[at]) return false;
    const ownMask = mine.get(host) ?? 0;
    if (freeBy(host, { atMs, nowMs, ownMask }) !== last.masks[at]) return false;
    at += 1;
  }
  return true;
}

const ownMasks = (gpus: readonly HostGpus[], { hosts }: Capacity): ReadonlyMap<PoolHost, number> =>
  new Map(
    gpus.flatMap(({ host: id, mask }) => {
      const host = hosts.get(id);
      return host === undefined ? [] : [[host, mask] as const];
    }),
  );
