/**
 * @file Upper bounds on how well a gang can lie, by counts alone: the fewest clusters and sites that have enough free for it.
 *
 * A necessary condition for moves: a placement can only touch more clusters and sites. Cost: O(clusters · log clusters).
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import { offersAt } from "../capacity/capacity.ts";
import { fitsOf, type CycleView } from "../admission/feasibility.ts";
import { largestGang, type ClusterOffer } from "../placement/placement-policy.ts";
import { fewestHolding } from "../placement/parts.ts";
import { throughputAcross } from "../placement/spread.ts";

export interface PlacementBound {
  /** Undefined where the gang may lie over several clusters: how much it takes of each is not known beforehand. */
  readonly place?: ClusterOffer;
  /** At best, 0 to 1. */
  readonly throughput: number;
}

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
    if (shape.maxClusters > 1 && !shape.isSameFabric)
      return largestGang(shape, offers) < asked.gpus
        ? []
        : [{ throughput: across(asked, offers, capacity) }];
    const able = offers.filter((offer) => largestGang(shape, [offer]) >= asked.gpus);
    return able.map((place) => ({ place, throughput: across(asked, [place], capacity) }));
  });
}

/** The best throughput of a gang when another has taken these GPUs out of a cluster; undefined where it finds no place. */
export function mostThroughput(
  request: PendingRequest,
  view: CycleView,
  taken?: ClusterOffer,
): number | undefined {
  const { capacity } = view;
  const { gpus } = request.gang;
  let most: number | undefined;
  for (const { type } of fitsOf(request, view)) {
    const left = offersAt(capacity, type, "now").map((offer) =>
      offer.cluster === taken?.cluster && offer.gpuType === taken.gpuType
        ? { ...offer, gpus: offer.gpus - taken.gpus }
        : offer,
    );
    if (largestGang(type.shape, left) < gpus) continue;
    const throughput = across({ gpus, gpuType: type.gpuType }, left, capacity);
    most = Math.max(most ?? 0, throughput);
  }
  return most;
}

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
