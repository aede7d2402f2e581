/**
 * @file The sizes and clusters in which a request could wait: in each cluster the size with the most progress there, and over
 * several clusters for a gang that no single one can hold.
 *
 * Cost: O(clusters · log clusters).
 */

import type { GangRequest } from "../../domain/lease/lease.ts";
import type { Capacity, TypeOptions } from "../capacity/capacity-state.ts";
import { byMostGpus, type ClusterOffer } from "../placement/placement-policy.ts";
import { productiveOf, type SizeOffer } from "../admission/gang-size.ts";

export interface ReservationOptions<Offer> {
  /** The best size, wherever that is. */
  readonly whole: SizeOffer;
  /** In the fleet's order; empty for a gang that lies on one host. */
  readonly inside: readonly { readonly size: SizeOffer; readonly offer: Offer }[];
  /** Clusters for `whole` when no single cluster can ever hold the gang; empty where the gang may not be split. */
  readonly across: readonly Offer[];
}

/** On GPUs that are reserved for no job, as `offers` count them; undefined where no acceptable size fits, or none reaches the floor. */
export function reservationOptions<Offer extends ClusterOffer>(
  request: GangRequest,
  offered: {
    readonly type: TypeOptions;
    readonly room: number;
    readonly offers: readonly Offer[];
  },
  now: { readonly capacity: Capacity; readonly nowMs: number },
): ReservationOptions<Offer> | undefined {
  const { type, offers: all } = offered;
  const { isSameHost, isSameFabric, maxClusters } = type.shape;
  const sizeIn = (offers: readonly Offer[]): SizeOffer | undefined =>
    productiveOf(request, { ...offered, offers, level: "reservable" }, now);
  const whole = sizeIn(all);
  if (whole === undefined) return undefined;
  const inside = all.flatMap((offer) => {
    const isOut = isSameHost || (isSameFabric && !offer.hasFabric);
    const size = isOut ? undefined : sizeIn([offer]);
    return size === undefined ? [] : [{ size, offer }];
  });
  return { whole, inside, across: maxClusters > 1 ? byMostGpus(all).slice(0, maxClusters) : [] };
}
