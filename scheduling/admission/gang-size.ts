/**
 * @file At which of its acceptable sizes a gang makes most progress: GPUs × throughput (placement/spread.ts).
 *
 * More GPUs are no gain where they lie in another site: 600 over three sites make less progress than 200 in one. So the largest size that
 * fits into one cluster is compared with the largest that fits into two, three, … (in order of their GPUs, and so again in each site),
 * at the best spread inside a cluster; ties go to the larger size. Until the gang timeout only the whole gang is acceptable.
 * The floor. A gang that accepts less must make at least the progress of its least size at the best spread, or it waits. The same holds for a
 * whole gang over three sites, which would hold five times the GPUs for less. Where the hosts in service, within the tenant's quota, would
 * not give that much even when idle, as much as they would give is enough. So every wait has an end. A gang that accepts nothing less has no
 * floor. Cost: O(clusters · log clusters).
 */

import { gpuCountOf, type GangRequest, type HostGpus } from "../../domain/lease/lease.ts";
import type { Capacity, Level, TypeOptions } from "../capacity/capacity-state.ts";
import { largestAt, offersAt } from "../capacity/capacity.ts";
import {
  canShrink,
  largestAcceptable,
  shrinkAtMs,
  smallestSize,
} from "../ledger/rules/grant-check.ts";
import type { FleetIndex } from "../ledger/rules/fleet-index.ts";
import { quotaLimit } from "../ledger/rules/limits.ts";
import { byMostGpus, type ClusterOffer } from "../placement/placement-policy.ts";
import { bestThroughput, throughputAcross, throughputOf } from "../placement/spread.ts";

export interface SizeOffer {
  readonly gpus: number;
  /** GPUs at peak that would make the same progress. */
  readonly worth: number;
}

/** A GPU type at a level of the capacity, and how many GPUs of it the request may have. */
export interface TypeRoom {
  readonly type: TypeOptions;
  readonly room: number;
  readonly level: Level;
}

interface Offered extends TypeRoom {
  readonly offers: readonly ClusterOffer[];
}

interface Now {
  readonly capacity: Capacity;
  readonly nowMs: number;
}

/** Undefined when no acceptable size fits, or none reaches the floor. */
export function productiveSize(
  request: GangRequest,
  typeRoom: TypeRoom,
  now: Now,
): SizeOffer | undefined {
  if (!holdsAny(request, typeRoom, now)) return undefined;
  const offers = offersAt(now.capacity, typeRoom.type, typeRoom.level);
  return productiveOf(request, { ...typeRoom, offers }, now);
}

/** Whether the largest gang that the type holds is of an acceptable size, or larger: no size fits otherwise. */
const holdsAny = (
  request: GangRequest,
  { type, room, level }: TypeRoom,
  { capacity, nowMs }: Now,
): boolean =>
  largestAcceptable(request, Math.min(largestAt(capacity, type, level), room), nowMs) !== undefined;

/** Whether a size must reach the floor at this level. */
export const hasFloor = ({ gang }: GangRequest, level: Level): boolean =>
  level !== "ever" && level !== "idle" && canShrink(gang);

/** As `productiveSize`, with these offers instead of those of the level. */
export function productiveOf(
  request: GangRequest,
  offered: Offered,
  now: Now,
): SizeOffer | undefined {
  const offers = sizeOffers(request, offered, now);
  const best = mostOf(offers);
  if (best === undefined || !hasFloor(request, offered.level)) return best;
  return best.worth >= floorOf(request, offered.type, now) ? best : undefined;
}

/** The better of two: more progress, then more GPUs. */
export function moreProductive(
  a: SizeOffer | undefined,
  b: SizeOffer | undefined,
): SizeOffer | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return b.worth > a.worth || (b.worth === a.worth && b.gpus > a.gpus) ? b : a;
}

const mostOf = (offers: readonly SizeOffer[]): SizeOffer | undefined =>
  offers.reduce<SizeOffer | undefined>(moreProductive, undefined);

/** The largest acceptable size on one host or cluster, on two clusters, … . */
function sizeOffers(
  request: GangRequest,
  { type, room, offers }: Offered,
  { capacity: { index, spread }, nowMs }: Now,
): readonly SizeOffer[] {
  const { isSameHost, isSameFabric, maxClusters } = type.shape;
  const usable = isSameFabric ? offers.filter(({ hasFabric }) => hasFabric) : offers;
  const found: SizeOffer[] = [];
  const consider = (most: number, clusters: number, sites: number): void => {
    const gpus = largestAcceptable(request, Math.min(most, room), nowMs);
    if (gpus === undefined) return;
    const throughput = throughputAcross(spread, type.gpuType, { gpus, clusters, sites });
    found.push({ gpus, worth: gpus * throughput });
  };
  if (isSameHost) {
    consider(Math.max(0, ...usable.map(({ largestHostGpus }) => largestHostGpus)), 1, 1);
    return found;
  }
  const most = isSameFabric ? 1 : Math.max(1, maxClusters);
  const sorted = byMostGpus(usable).map((offer) => ({
    gpus: offer.gpus,
    site: index.clusters.find(({ id }) => id === offer.cluster)?.site ?? offer.cluster,
  }));
  const together = (clusters: typeof sorted): void => {
    let gpus = 0;
    const sites = new Set<string>();
    for (const [at, cluster] of clusters.slice(0, most).entries()) {
      gpus += cluster.gpus;
      sites.add(cluster.site);
      consider(gpus, at + 1, sites.size);
    }
  };
  together(sorted);
  const bySite = new Set(sorted.map(({ site }) => site));
  if (most > 1 && bySite.size > 1 && bySite.size < sorted.length)
    for (const site of bySite) together(sorted.filter((cluster) => cluster.site === site));
  return found;
}

/** The least worth of a smaller gang. Cost: O(1) until a host changes. */
export function floorOf(request: GangRequest, type: TypeOptions, now: Now): number {
  const { hostVersion } = now.capacity;
  const isPatient = now.nowMs < shrinkAtMs(request);
  const ofType = FLOORS.get(type) ?? new WeakMap<GangRequest, KeptFloor>();
  FLOORS.set(type, ofType);
  const known = ofType.get(request);
  if (known?.hostVersion === hostVersion && known.isPatient === isPatient) return known.floor;
  const floor = floorNow(request, type, now);
  ofType.set(request, { hostVersion, isPatient, floor });
  return floor;
}

interface KeptFloor {
  readonly hostVersion: number;
  /** Smaller sizes are not acceptable yet. */
  readonly isPatient: boolean;
  readonly floor: number;
}

/** Types belong to one capacity. */
const FLOORS = new WeakMap<TypeOptions, WeakMap<GangRequest, KeptFloor>>();

function floorNow(request: GangRequest, type: TypeOptions, now: Now): number {
  const { capacity } = now;
  const least = smallestSize(request.gang);
  const rule = capacity.index.tenants.get(request.tenant);
  const room = quotaLimit(rule, type.gpuType)?.gpus ?? Infinity;
  const offers = offersAt(capacity, type, "idle");
  const idle = mostOf(sizeOffers(request, { type, room, level: "idle", offers }, now));
  return Math.min(least * bestThroughput(least), idle?.worth ?? 0);
}

/** Whether a place that was found reaches the floor, free or not. `types`: those that may serve the request. */
export function isWorthIt(
  request: GangRequest,
  gpus: readonly HostGpus[],
  now: Now & { readonly types: readonly TypeOptions[] },
): boolean {
  if (!canShrink(request.gang)) return true;
  const { capacity, types } = now;
  const { gpuType, ...across } = spanOf(gpus, capacity);
  const type = types.find((each) => each.gpuType === gpuType);
  if (type === undefined) return false;
  const worth = across.gpus * throughputAcross(capacity.spread, type.gpuType, across);
  return worth >= floorOf(request, type, now);
}

/** Over how much of the fleet a list of GPUs lies. */
interface Span {
  readonly gpuType: string | undefined;
  readonly gpus: number;
  readonly clusters: number;
  readonly sites: number;
}

/** Of lists of GPUs, which do not change, in the fleet of the index. */
const SPANS = new WeakMap<FleetIndex, WeakMap<readonly HostGpus[], Span>>();

function spanOf(gpus: readonly HostGpus[], { index }: Capacity): Span {
  const spans = SPANS.get(index) ?? new WeakMap<readonly HostGpus[], Span>();
  SPANS.set(index, spans);
  const known = spans.get(gpus);
  if (known !== undefined) return known;
  const clusters = new Set<string>();
  const sites = new Set<string>();
  let gpuType: string | undefined;
  for (const { host } of gpus) {
    const at = index.places.get(host);
    if (at === undefined) continue;
    gpuType ??= at.host.gpuType;
    clusters.add(at.cluster.id);
    sites.add(at.cluster.site);
  }
  const span = { gpuType, gpus: gpuCountOf(gpus), clusters: clusters.size, sites: sites.size };
  spans.set(gpus, span);
  return span;
}

/** The progress of a gang on just these GPUs, in GPUs at peak. */
export const progressOf = (gpus: readonly HostGpus[], { spread }: Capacity): number =>
  gpuCountOf(gpus) * throughputOf(gpus, spread);
