/**
 * @file How well a gang can lie at best, by counts alone: the fewest clusters and sites that have enough free for it, before anybody places anything.
 *
 * Upper bounds: a placement can only touch more. Cost: O(clusters · log clusters).
 */

import type { PendingRequest } from "../domain/plan.ts";
import { offersAt, type Capacity } from "./capacity.ts";
import { prospectsOf, type Scene } from "./judge.ts";
import { largestGang, type ClusterOffer } from "./placement/placement-policy.ts";
import { fewestHolding } from "./placement/parts.ts";
import { throughputAcross } from "./placement/spread.ts";

export interface Room {
  /** Undefined where the gang may lie over several clusters: then nobody knows beforehand what it takes of each. */
  readonly place?: ClusterOffer;
  /** At best, 0 to 1. */
  readonly throughput: number;
}

/** Where the request could lie now. */
export function roomsFor(request: PendingRequest, scene: Scene): readonly Room[] {
  const { capacity } = scene;
  return prospectsOf(request, scene).flatMap(({ type }): readonly Room[] => {
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

/** What a gang reaches at best when another has taken these GPUs out of a cluster; undefined where it has no room. */
export function mostThroughput(
  request: PendingRequest,
  scene: Scene,
  taken?: ClusterOffer,
): number | undefined {
  const { capacity } = scene;
  const { gpus } = request.gang;
  let most: number | undefined;
  for (const { type } of prospectsOf(request, scene)) {
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
