/**
 * @file Upper bounds on how well a gang can lie, by counts alone: the fewest clusters and sites that have enough free for it.
 *
 * A necessary condition for moves: a placement can only touch more clusters and sites. Cost: O(clusters · log clusters) a set of them.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { Capacity, TypeOptions } from "../capacity/capacity-state.ts";
import { offersAt } from "../capacity/capacity.ts";
import { fitsOf, type CycleView } from "../admission/feasibility.ts";
import { largestGang, type ClusterOffer } from "../placement/placement-policy.ts";
import { fewestHolding } from "../placement/parts.ts";
import { throughputAcross } from "../placement/spread.ts";

export interface PlacementBound {
  /** What its clusters give; the gang takes its GPUs out of these alone. Empty where that is not known. */
  readonly place: readonly ClusterOffer[];
  /** At best, 0 to 1. */
  readonly throughput: number;
}

/** Beyond so many clusters of a type their sets are not told apart. */
const MOST_CLUSTERS = 6;

/** The clusters, or sets of clusters, in which the request could lie now. */
export function placementBounds(
  request: PendingRequest,
  view: CycleView,
): readonly PlacementBound[] {
  const { capacity } = view;
  return fitsOf(request, view).flatMap(({ type }): readonly PlacementBound[] => {
    const { shape, gpuType } = type;
    const offers = offersAt(capacity, type, "now");
    const asked = { gpus: request.gang.gpus, gpuType };
    if (largestGang(shape, offers) < asked.gpus) return [];
    const sets = setsOf(shape, offers).filter((set) => largestGang(shape, set) >= asked.gpus);
    return sets.map((set) => ({
      place: isOnAllHosts(type) ? set : [],
      throughput: across(asked, set, capacity),
    }));
  });
}

/** Each cluster alone, or the sets of as many as the gang may lie over; where there are too many, all clusters together. */
function setsOf(
  { maxClusters, isSameFabric }: TypeOptions["shape"],
  offers: readonly ClusterOffer[],
): readonly (readonly ClusterOffer[])[] {
  const most = isSameFabric ? 1 : maxClusters;
  if (most <= 1) return offers.map((offer) => [offer]);
  if (offers.length > MOST_CLUSTERS) return [offers];
  let sets: readonly (readonly ClusterOffer[])[] = [[]];
  for (const offer of offers)
    sets = [...sets, ...sets.filter(({ length }) => length < most).map((set) => [...set, offer])];
  return sets.filter(({ length }) => length > 0);
}

/** What another gang takes out of these clusters together. */
export interface TakenGpus {
  readonly place: readonly ClusterOffer[];
  readonly gpus: number;
}

/** The best throughput of a gang when another has taken its GPUs; undefined where it finds no place. */
export function mostThroughput(
  request: PendingRequest,
  view: CycleView,
  taken?: TakenGpus,
): number | undefined {
  const { capacity } = view;
  const { gpus } = request.gang;
  let most: number | undefined;
  for (const { type } of fitsOf(request, view)) {
    const left = leftOf(type, offersAt(capacity, type, "now"), taken);
    if (largestGang(type.shape, left) < gpus) continue;
    const throughput = across({ gpus, gpuType: type.gpuType }, left, capacity);
    most = Math.max(most ?? 0, throughput);
  }
  return most;
}

/** Of several clusters nobody knows from which of them the GPUs are taken, but how many are left together. */
function leftOf(
  type: TypeOptions,
  offers: readonly ClusterOffer[],
  taken: TakenGpus | undefined,
): readonly ClusterOffer[] {
  if (taken === undefined || !isOnAllHosts(type)) return offers;
  const inPlace = ({ rank }: ClusterOffer): boolean =>
    taken.place.some((other) => other.rank === rank);
  const rest = offers.filter(inPlace).reduce((sum, { gpus }) => sum + gpus, 0) - taken.gpus;
  return offers.map((offer) =>
    inPlace(offer) ? { ...offer, gpus: Math.min(offer.gpus, rest) } : offer,
  );
}

/** Two requests of which this is true can use the same GPUs. */
const isOnAllHosts = ({ avoided, closed }: TypeOptions): boolean =>
  avoided.size === 0 && closed.size === 0;

/** For each type in which a gang of this size would fit: the GPUs at peak that would make as much progress as it could at best. */
export const mostWorthIn = (
  request: PendingRequest,
  gpus: number,
  view: CycleView,
): readonly { readonly type: TypeOptions; readonly worth: number }[] =>
  fitsOf(request, view).flatMap(({ type }) => {
    const { capacity } = view;
    const offers = offersAt(capacity, type, "now");
    if (largestGang(type.shape, offers) < gpus) return [];
    return [{ type, worth: mostWorthOf(type, offers, { gpus, capacity }) }];
  });

/** The same of clusters that offer so many, which are enough. */
export const mostWorthOf = (
  { gpuType }: TypeOptions,
  offers: readonly ClusterOffer[],
  { gpus, capacity }: { readonly gpus: number; readonly capacity: Capacity },
): number => gpus * across({ gpus, gpuType }, offers, capacity);

interface Asked {
  readonly gpus: number;
  readonly gpuType: string;
}

function across(
  { gpus, gpuType }: Asked,
  offers: readonly ClusterOffer[],
  { spread, index }: Capacity,
): number {
  const siteOf = new Map(index.clusters.map(({ id, site }) => [id, site]));
  const bySite = new Map<string | undefined, number>();
  for (const offer of offers) {
    const site = siteOf.get(offer.cluster);
    bySite.set(site, (bySite.get(site) ?? 0) + offer.gpus);
  }
  const clusters = fewestHolding(
    gpus,
    offers.map((offer) => offer.gpus),
  );
  return throughputAcross(spread, gpuType, {
    gpus,
    clusters,
    sites: fewestHolding(gpus, [...bySite.values()]),
  });
}
