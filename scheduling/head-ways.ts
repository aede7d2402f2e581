/**
 * @file The sizes and clusters in which a request could wait for its start: in each cluster as many GPUs as make most progress there, and over
 * several clusters for the case that no single one serves.
 *
 * Cost: O(clusters · log clusters).
 */

import type { GangRequest } from "../domain/lease.ts";
import type { Capacity, TypeOptions } from "./capacity.ts";
import { byMostGpus, type ClusterOffer } from "./placement/placement-policy.ts";
import { productiveOf, type SizeOffer } from "./productive-size.ts";

export interface HeadWays<Offer> {
  /** At its best wherever that is. */
  readonly whole: SizeOffer;
  /** In the fleet's order; none for a gang that lies on one host. */
  readonly inside: readonly { readonly size: SizeOffer; readonly offer: Offer }[];
  /** Where `whole` is looked for when nothing inside one cluster can ever be; empty where the gang may not be split. */
  readonly across: readonly Offer[];
}

/** On what is set apart for nobody, as `offers` have it; undefined where no acceptable size fits, or none is worth it. */
export function headWays<Offer extends ClusterOffer>(
  request: GangRequest,
  offered: {
    readonly type: TypeOptions;
    readonly room: number;
    readonly offers: readonly Offer[];
  },
  now: { readonly capacity: Capacity; readonly nowMs: number },
): HeadWays<Offer> | undefined {
  const { type, offers: all } = offered;
  const { isSameHost, isSameFabric, maxClusters } = type.shape;
  const sizeIn = (offers: readonly Offer[]): SizeOffer | undefined =>
    productiveOf(request, { ...offered, offers }, "reservable", now);
  const whole = sizeIn(all);
  if (whole === undefined) return undefined;
  const inside = all.flatMap((offer) => {
    const isOut = isSameHost || (isSameFabric && !offer.hasFabric);
    const size = isOut ? undefined : sizeIn([offer]);
    return size === undefined ? [] : [{ size, offer }];
  });
  return { whole, inside, across: maxClusters > 1 ? byMostGpus(all).slice(0, maxClusters) : [] };
}
