/**
 * @file At which of its acceptable sizes a gang makes most progress on what there is: GPUs × throughput (placement/spread.ts).
 *
 * More GPUs are no gain where they lie in another site: 600 over three make less progress than 200 in one. So the largest size that
 * fits into one cluster is compared with the largest that fits into two, three, … (in order of their GPUs, and so again in each site),
 * at the best spread inside a cluster; ties go to the larger size. Until the gang timeout only the whole gang is acceptable.
 * The floor. A gang that accepts less has to make the progress of its least size at the best spread, or it waits; a whole one over three
 * sites, too, which would hold five times the GPUs for less. Where the hosts that answer would not give so much even if they were idle,
 * within the tenant's quota, as much as they would is enough. So waiting always has an end. Who accepts nothing less has no floor.
 * Cost: O(clusters · log clusters).
 */

import { gpuCountOf, type GangRequest, type HostGpus } from "../domain/lease.ts";
import { offersAt, type Capacity, type Level, type TypeOptions } from "./capacity.ts";
import { canShrink, largestAcceptable, smallestSize } from "./feasibility.ts";
import { quotaLimit } from "./limits.ts";
import { byMostGpus, type ClusterOffer } from "./placement/placement-policy.ts";
import { bestThroughput, throughputAcross, throughputOf } from "./placement/spread.ts";

export interface SizeOffer {
  readonly gpus: number;
  /** GPUs at peak that would make the same progress. */
  readonly worth: number;
}

/** What a type offers, and how many GPUs of it the request may have. */
export interface TypeRoom {
  readonly type: TypeOptions;
  readonly room: number;
}

interface Offered extends TypeRoom {
  readonly offers: readonly ClusterOffer[];
}

interface Now {
  readonly capacity: Capacity;
  readonly nowMs: number;
}

/** Of one GPU type, at a level of the capacity; undefined when no acceptable size fits, or none is worth it. */
export function productiveSize(
  request: GangRequest,
  { type, room }: TypeRoom,
  level: Level,
  now: Now,
): SizeOffer | undefined {
  const offers = offersAt(now.capacity, type, level);
  return productiveOf(request, { type, room, offers }, level, now);
}

/** The same with these offers for those of the level. */
export function productiveOf(
  request: GangRequest,
  offered: Offered,
  level: Level,
  now: Now,
): SizeOffer | undefined {
  const offers = sizeOffers(request, offered, now);
  const best = mostOf(offers);
  if (best === undefined || level === "ever" || level === "idle") return best;
  if (!canShrink(request.gang)) return best;
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

/** What a smaller gang has to be worth at least. */
function floorOf(request: GangRequest, type: TypeOptions, now: Now): number {
  const { capacity } = now;
  const least = smallestSize(request.gang);
  const rule = capacity.index.tenants.get(request.tenant);
  const room = quotaLimit(rule, type.gpuType)?.gpus ?? Infinity;
  const offers = offersAt(capacity, type, "idle");
  const idle = mostOf(sizeOffers(request, { type, room, offers }, now));
  return Math.min(least * bestThroughput(least), idle?.worth ?? 0);
}

/** The same of a place that was found, whatever of it is still others'. `types`: what may serve the request. */
export function isWorthIt(
  request: GangRequest,
  gpus: readonly HostGpus[],
  types: readonly TypeOptions[],
  now: Now,
): boolean {
  const size = gpuCountOf(gpus);
  const { capacity } = now;
  if (!canShrink(request.gang)) return true;
  const clusters = new Set<string>();
  const sites = new Set<string>();
  let gpuType: string | undefined;
  for (const { host } of gpus) {
    const at = capacity.index.places.get(host);
    if (at === undefined) continue;
    gpuType ??= at.host.gpuType;
    clusters.add(at.cluster.id);
    sites.add(at.cluster.site);
  }
  const type = types.find((each) => each.gpuType === gpuType);
  if (type === undefined) return false;
  const across = { gpus: size, clusters: clusters.size, sites: sites.size };
  const worth = size * throughputAcross(capacity.spread, type.gpuType, across);
  return worth >= floorOf(request, type, now);
}

/** What a gang makes on just these GPUs, in GPUs at peak. */
export const progressOf = (gpus: readonly HostGpus[], { spread }: Capacity): number =>
  gpuCountOf(gpus) * throughputOf(gpus, spread);
