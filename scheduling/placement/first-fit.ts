/**
 * @file Takes the first cluster, in the fleet's order, that holds the whole gang; spans clusters only if none does.
 *
 * When it spans, it takes the fewest clusters: those with the most GPUs to offer, whole ones first, ties in the fleet's order, and the first
 * GPU type that suffices. Exact: it finds a placement whenever there is one, because no other choice of `maxClusters` clusters holds more.
 * It considers neither links nor distances. Cost: O(offers · log offers). The plain baseline of SpinSearch.
 */

import {
  byMostGpus,
  largestGang,
  type ClusterOffer,
  type Placement,
  type PlacementDemand,
  type PlacementPolicy,
} from "./placement-policy.ts";

export const firstFit: PlacementPolicy = (demand, offers) => {
  const single = offers.find(
    (offer) => largestGang({ ...demand, maxClusters: 1 }, [offer]) >= demand.gpus,
  );
  if (single !== undefined) {
    const { gpuType, cluster } = single;
    const placement = { gpuType, parts: [{ cluster, gpus: demand.gpus }] };
    return { placement, candidates: offers.indexOf(single) + 1 };
  }
  const types = [...new Set(offers.map(({ gpuType }) => gpuType))];
  for (const gpuType of types) {
    const ofType = offers.filter((offer) => offer.gpuType === gpuType);
    if (largestGang(demand, ofType) < demand.gpus) continue;
    return { placement: { gpuType, parts: span(demand, ofType) }, candidates: 2 * offers.length };
  }
  return { candidates: 2 * offers.length };
};

function span({ gpus }: PlacementDemand, offers: readonly ClusterOffer[]): Placement["parts"] {
  let open = gpus;
  const chosen: { readonly offer: ClusterOffer; readonly gpus: number }[] = [];
  for (const offer of byMostGpus(offers)) {
    if (open <= 0) break;
    const share = Math.min(open, offer.gpus);
    chosen.push({ offer, gpus: share });
    open -= share;
  }
  return chosen
    .sort((a, b) => a.offer.rank - b.offer.rank)
    .map(({ offer, gpus: share }) => ({ cluster: offer.cluster, gpus: share }));
}
