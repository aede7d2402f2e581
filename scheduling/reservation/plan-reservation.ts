/**
 * @file Which GPUs a request that cannot start should wait for: those on which it is expected to end first, well placed among those.
 *
 * A GPU is free now, or when its lease ends by its time limit; leases without a limit end after all others, the oldest
 * first. For each cluster (or host, where the gang must lie on one) the search finds the time at which enough of its GPUs are free. A gang
 * that accepts less waits for as many as each cluster can give: few soon or more later, whichever lets it end first (expected-runtime.ts);
 * others wait for the place that is free first. Ties in the fleet's order. Then the placement policy chooses among all GPUs that are free
 * there by then. GPUs that are reserved for other jobs are left out. For a request that has a reservation, the last GPU of any plan is
 * free at the very time that was found, so a plan that cannot be better is known before anything is placed.
 * Cost: O(GPUs · log GPUs), and the policy's own; O(GPUs) where nothing is better than the reservation.
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import { gpuCountOf, popCount, type HostGpus, type Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { Options, TypeOptions } from "../capacity/capacity-state.ts";
import {
  hostsOf,
  largestAt,
  needIn,
  offersAt,
  optionsFor,
  wattsLeft,
} from "../capacity/capacity.ts";
import {
  endOf,
  freeBy,
  outlookOf,
  unreservedIn,
  unreservedOn,
  untilLeasesChange,
  type EndProfile,
} from "../capacity/release-profile.ts";
import {
  leastSharesOn,
  withinShares,
  withLenders,
  withoutLenders,
} from "../capacity/stranded-gpus.ts";
import { lowestBits } from "../../lib/bits.ts";
import { expectedRunMs } from "../estimates/expected-runtime.ts";
import { leastThroughputFor } from "../admission/least-throughput.ts";
import { largestAcceptable, shapeOf } from "../ledger/rules/grant-check.ts";
import { noteSearch } from "./last-search.ts";
import { reservationOptions } from "./reservation-options.ts";
import { gpusIn, UNKNOWN_END_MS, type Pool, type PoolHost } from "../capacity/host-pools.ts";
import { fitsOf, type ClusterFit, type CycleView } from "../admission/feasibility.ts";
import { WATTS_EPSILON } from "../ledger/rules/limits.ts";
import type { PlaceHost, PlacePolicy } from "../placement/place-policy.ts";
import { byMostGpus } from "../placement/placement-policy.ts";
import { isWorthIt, type SizeOffer } from "../admission/gang-size.ts";

export interface ReservationOption {
  readonly gpus: readonly HostGpus[];
  /** When the last of them is free, by the time limits of leases; not before now. */
  readonly readyAtMs: number;
  /** GPUs that are leased now, those in opportunistic use aside. */
  readonly missing: number;
  /** GPUs in opportunistic use. */
  readonly opportunistic: number;
}

/** Whether it is free sooner; or as soon, and fewer of its GPUs are leased. */
export const isBetter = (
  a: Pick<ReservationOption, "readyAtMs" | "missing">,
  b: Pick<ReservationOption, "readyAtMs" | "missing">,
): boolean => a.readyAtMs < b.readyAtMs || (a.readyAtMs === b.readyAtMs && a.missing < b.missing);

/**
 * Undefined when the reservations of others leave too little, or nothing better than `known`. The request's own reservation is off the
 * capacity.
 */
export function findReservation(
  request: PendingRequest,
  view: CycleView,
  { place, known }: { readonly place: PlacePolicy; readonly known?: ReservationOption },
): ReservationOption | undefined {
  let best: (Candidate & { readonly type: TypeOptions }) | undefined;
  for (const fit of fitsOf(request, view)) {
    const candidate = firstToEnd(request, fit, { view, latestMs: known?.readyAtMs ?? Infinity });
    if (candidate !== undefined && (best === undefined || candidate.endMs < best.endMs))
      best = { ...candidate, type: fit.type };
  }
  if (best === undefined) return undefined;
  const { atMs, size } = best;
  if (known !== undefined) {
    const { nowMs } = view;
    const free = best.hosts.reduce(
      (sum, host) => sum + popCount(freeBy(host, { atMs: -Infinity, nowMs })),
      0,
    );
    if (!isBetter({ readyAtMs: atMs, missing: Math.max(0, size - free) }, known)) return undefined;
  }
  const gpus = placeBy(request, size, { hosts: best.hosts, atMs, view, place });
  if (known !== undefined && gpus !== undefined) {
    const masks = Uint32Array.from(best.hosts, (host) => freeBy(host, { atMs, nowMs: view.nowMs }));
    noteSearch(known.gpus, { hosts: best.hosts, size, masks, gpus });
  }
  if (gpus === undefined) return undefined;
  const own = withoutLenders(gpus, view.capacity.hosts, needIn(view.capacity, request));
  if (!isWorthIt(request, own, { ...view, types: [best.type] })) return undefined;
  return fitOf(gpus, view);
}

interface PlaceSearch {
  readonly hosts: readonly PoolHost[];
  /** Enough GPUs are free by then. */
  readonly atMs: number;
  readonly view: CycleView;
  readonly place: PlacePolicy;
}

/**
 * On the GPUs that are free by that time; where they are too scattered for the request, on those that are free at the earliest later end
 * of a lease by which they are not. More free GPUs never make a place worse, so halving finds it.
 */
function placeBy(
  request: PendingRequest,
  size: number,
  { hosts, atMs, view, place }: PlaceSearch,
): readonly HostGpus[] | undefined {
  const { capacity, nowMs } = view;
  const need = needIn(capacity, request);
  const leastThroughput = leastThroughputFor(request, size, view);
  const demand = {
    ...shapeOf(request.constraints),
    gpus: size,
    ...(leastThroughput !== undefined && { leastThroughput }),
  };
  const at = (byMs: number): readonly HostGpus[] | undefined => {
    const free = hosts.map((host) => ({
      host: host.id,
      mask: freeBy(host, { atMs: byMs, nowMs }),
    }));
    const usable = hosts.flatMap((host, index): PlaceHost[] => {
      const part = free[index];
      const freeMask = part === undefined ? 0 : withinShares(part, capacity.hosts, need);
      return freeMask === 0 ? [] : [{ at: host.at, freeMask }];
    });
    const { gpus } = place(demand, usable, capacity);
    return gpus && withLenders(gpus, capacity.hosts, { need, free });
  };
  const first = at(atMs);
  if (first !== undefined || (leastThroughput === undefined && need === undefined)) return first;
  const later = laterEnds(hosts, atMs);
  let found: readonly HostGpus[] | undefined;
  let low = 0;
  let high = later.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const gpus = at(later[middle] ?? Infinity);
    if (gpus === undefined) low = middle + 1;
    else {
      found = gpus;
      high = middle;
    }
  }
  return found;
}

/** Ascending, each once. */
function laterEnds(hosts: readonly PoolHost[], atMs: number): readonly number[] {
  const ends = new Set<number>();
  for (const host of hosts)
    for (const { endAtMs } of host.holds.values()) if (endAtMs > atMs) ends.add(endAtMs);
  return [...ends].sort((a, b) => a - b);
}

/**
 * A part of a place that could hold the gang: in the cluster (or host) with the most GPUs that are reserved for no job. Later cycles
 * complete it when other reservations end. Undefined when there is no such GPU.
 */
export function planPart(request: PendingRequest, view: CycleView): ReservationOption | undefined {
  const { capacity, nowMs } = view;
  let best:
    { readonly hosts: readonly PoolHost[]; readonly size: number; most: number } | undefined;
  for (const { type, limit } of fitsOf(request, view)) {
    const idle = largestAt(capacity, type, "idle");
    const size = largestAcceptable(request, Math.min(idle, limit), nowMs);
    if (size === undefined) continue;
    for (const hosts of placesFor(type, size, view)) {
      const most = hosts.reduce((sum, host) => sum + popCount(unreservedMask(host)), 0);
      if (most > (best?.most ?? 0)) best = { hosts, size, most };
    }
  }
  if (best === undefined) return undefined;
  const gpus: HostGpus[] = [];
  let open = best.size;
  for (const host of best.hosts) {
    const mask = lowestBits(unreservedMask(host), open);
    if (mask === 0) continue;
    open -= popCount(mask);
    gpus.push({ host: host.id, mask });
  }
  const sorted = gpus.sort((a, b) => byCodeUnit(a.host, b.host));
  return { ...fitOf(sorted, view), readyAtMs: UNKNOWN_END_MS };
}

/** Sets of hosts that could hold so many GPUs if nothing were leased or reserved. */
function placesFor(
  type: TypeOptions,
  size: number,
  { capacity }: CycleView,
): readonly (readonly PoolHost[])[] {
  const { isSameHost, isSameFabric, maxClusters } = type.shape;
  const offers = offersAt(capacity, type, "idle").filter(
    ({ hasFabric }) => hasFabric || !isSameFabric,
  );
  if (isSameHost)
    return hostsOf(type)
      .filter((host) => gpusIn(host, "idle") >= size)
      .map((host) => [host]);
  const single = offers.filter(({ gpus }) => gpus >= size);
  if (single.length > 0 || maxClusters <= 1)
    return single.map(({ cluster }) => hostsOf(type, cluster));
  const several = byMostGpus(offers).slice(0, maxClusters);
  return [several.flatMap(({ cluster }) => hostsOf(type, cluster))];
}

const unreservedMask = ({ serviceMask, reservedMask }: PoolHost): number =>
  serviceMask & ~reservedMask;

/** How soon reserved GPUs are free. */
export function fitOf(
  gpus: readonly HostGpus[],
  { capacity, nowMs }: CycleView,
): ReservationOption {
  const { lastEndMs, missing, opportunistic } = outlookOf(gpus, capacity);
  return { gpus, readyAtMs: Math.max(nowMs, lastEndMs), missing, opportunistic };
}

/** Whether the request may still wait for these GPUs. */
export function isUsable(
  request: PendingRequest,
  { gpus }: Pick<Reservation, "gpus">,
  { capacity, nowMs }: CycleView,
): boolean {
  const own = withoutLenders(gpus, capacity.hosts, needIn(capacity, request));
  const size = gpuCountOf(own);
  if (largestAcceptable(request, size, nowMs) !== size) return false;
  const options = optionsFor(capacity, request, nowMs);
  if (!isWorthIt(request, own, { types: options.types, capacity, nowMs })) return false;
  return isUsableBy(options, request, { gpus, capacity });
}

function isUsableBy(
  { types }: Options,
  request: PendingRequest,
  { gpus, capacity }: Pick<Reservation, "gpus"> & Pick<CycleView, "capacity">,
): boolean {
  const ground = groundOf(gpus, capacity);
  if (ground === undefined) return false;
  const { gpuType, pools, clusters, hasFabric } = ground;
  const type = types.find((each) => each.gpuType === gpuType);
  if (type === undefined) return false;
  const { avoided, closed, groups } = type;
  const { maxClusters, isSameHost, isSameFabric } = shapeOf(request.constraints);
  const areAllOpen =
    (avoided.size === 0 && closed.size === 0) ||
    gpus.every(({ host }) => !avoided.has(host) && !closed.has(host));
  return (
    areAllOpen &&
    [...pools].every((pool) => groups.some((group) => group.pools.includes(pool))) &&
    clusters <= maxClusters &&
    (!isSameHost || gpus.length === 1) &&
    (!isSameFabric || hasFabric)
  );
}

/** Where a list of GPUs lies. */
interface Ground {
  readonly gpuType: string | undefined;
  readonly pools: ReadonlySet<Pool>;
  readonly clusters: number;
  /** Each of the clusters has one. */
  readonly hasFabric: boolean;
}

/** Undefined where a GPU is out of service, or the fleet has its host no more. Cost: O(hosts), O(hosts) comparisons until a lease changes. */
const groundOf = untilLeasesChange((gpus, { hosts }): Ground | undefined => {
  const pools = new Set<Pool>();
  for (const { host: id, mask } of gpus) {
    const host = hosts.get(id);
    if (host === undefined || (mask & ~host.serviceMask) !== 0) return undefined;
    pools.add(host.pool);
  }
  const [first] = pools;
  const clusters = new Set([...pools].map(({ cluster }) => cluster));
  const hasFabric = [...clusters].every(({ fabricGbps }) => fabricGbps !== undefined);
  return { gpuType: first?.gpuType, pools, clusters: clusters.size, hasFabric };
});

/**
 * The shadow time: others may run on the reserved GPUs until then. Undefined when no time limit says it, or when watts are missing. The
 * reservation is on the capacity, so that its watts are accounted for.
 */
export function usableUntilOf(
  { gpus, readyAtMs }: ReservationOption,
  { capacity, nowMs }: CycleView,
): number | undefined {
  if (readyAtMs <= nowMs || readyAtMs >= UNKNOWN_END_MS) return undefined;
  const clusters = new Set(gpus.map(({ host }) => capacity.hosts.get(host)?.pool.cluster));
  const isPowered = [...clusters].every(
    (cluster) => cluster !== undefined && wattsLeft(capacity, cluster) >= -WATTS_EPSILON,
  );
  return isPowered ? readyAtMs : undefined;
}

interface Candidate {
  readonly atMs: number;
  /** When the gang would have ended. */
  readonly endMs: number;
  readonly size: number;
  /** Where that many are free by then. */
  readonly hosts: readonly PoolHost[];
}

/** A candidate that is ready later than `latestMs` is left out. */
function firstToEnd(
  request: PendingRequest,
  { type, room }: ClusterFit,
  { view, latestMs }: { readonly view: CycleView; readonly latestMs: number },
): Candidate | undefined {
  const { capacity, nowMs } = view;
  const offers = offersAt(capacity, type, "reservable");
  const options = reservationOptions(request, { type, room, offers }, view);
  if (options === undefined) return undefined;
  const { whole, inside, across } = options;
  const { need } = type;
  let best: Candidate | undefined;
  let isPossible = false;
  const consider = (
    { gpus: size, worth }: SizeOffer,
    hosts: readonly PoolHost[],
    profiles: readonly EndProfile[],
  ): void => {
    const runMs = expectedRunMs(request, worth);
    const beforeMs = best === undefined ? latestMs : Math.min(latestMs, best.endMs - runMs);
    const withShares = Math.ceil(size * leastSharesOn(hosts, need));
    const atMs = enoughAtMs(profiles, { size: withShares, nowMs, latestMs: beforeMs });
    isPossible ||= atMs !== undefined;
    if (atMs === undefined || atMs > latestMs) return;
    const endMs = atMs + runMs;
    if (best === undefined || endMs < best.endMs) best = { atMs, endMs, size, hosts };
  };
  if (type.shape.isSameHost) {
    for (const { cluster, hasFabric, largestHostGpus } of offers) {
      if ((type.shape.isSameFabric && !hasFabric) || largestHostGpus < whole.gpus) continue;
      for (const host of hostsOf(type, cluster)) consider(whole, [host], [unreservedOn([host])]);
    }
    return best;
  }
  for (const { size, offer } of inside) {
    const { cluster } = offer;
    consider(size, hostsOf(type, cluster), [unreservedIn(type, cluster)]);
  }
  if (!isPossible && across.length > 0)
    consider(
      whole,
      across.flatMap(({ cluster }) => hostsOf(type, cluster)),
      across.map(({ cluster }) => unreservedIn(type, cluster)),
    );
  return best;
}

/** When so many GPUs are free that are reserved for no job: undefined for never, `Infinity` for after `latestMs`. */
function enoughAtMs(
  profiles: readonly EndProfile[],
  {
    size,
    nowMs,
    latestMs,
  }: { readonly size: number; readonly nowMs: number; readonly latestMs: number },
): number | undefined {
  const free = profiles.reduce((sum, each) => sum + each.free, 0);
  if (free >= size) return nowMs;
  const atMs = endOf(size - free, profiles);
  if (atMs === Infinity) return undefined;
  return atMs > latestMs ? Infinity : Math.max(nowMs, atMs);
}
