/**
 * @file The interface of policies that choose clusters and the number of GPUs in each, and the bound on all of them.
 *
 * An offer is the number of GPUs that one cluster could give now in one GPU type, after the exclusion of all that the request cannot use:
 * drained hosts, other types, too little memory, no power. A gang has one type, so a placement joins offers of one type only.
 */

import type { ClusterId } from "../../domain/values/ids.ts";

export interface ClusterOffer {
  readonly cluster: ClusterId;
  readonly gpuType: string;
  /** GPUs that can be had together, within the cluster's watts. */
  readonly gpus: number;
  /** GPUs that can be had on one host, at most. */
  readonly largestHostGpus: number;
  readonly hasFabric: boolean;
  /** Place in the fleet's order of clusters, then of types: unique. */
  readonly rank: number;
}

export interface PlacementDemand {
  readonly gpus: number;
  readonly maxClusters: number;
  readonly isSameHost: boolean;
  readonly isSameFabric: boolean;
}

export interface Placement {
  readonly gpuType: string;
  /** In the fleet's order of clusters; the counts sum up to the demand. */
  readonly parts: readonly { readonly cluster: ClusterId; readonly gpus: number }[];
}

/** Offers come in order of rank. The answer is absent when the policy finds none; `candidates` is its work. */
export type PlacementPolicy = (
  demand: PlacementDemand,
  offers: readonly ClusterOffer[],
) => { readonly placement?: Placement; readonly candidates: number };

/** The largest gang of the requested shape that offers of one type can hold; any exact policy reaches it. */
export function largestGang(
  { maxClusters, isSameHost, isSameFabric }: Omit<PlacementDemand, "gpus">,
  offers: readonly ClusterOffer[],
): number {
  const usable = isSameFabric ? offers.filter(({ hasFabric }) => hasFabric) : offers;
  if (isSameHost)
    return usable.reduce((most, { largestHostGpus }) => Math.max(most, largestHostGpus), 0);
  if (maxClusters <= 1 || isSameFabric)
    return usable.reduce((most, { gpus }) => Math.max(most, gpus), 0);
  return byMostGpus(usable)
    .slice(0, maxClusters)
    .reduce((sum, { gpus }) => sum + gpus, 0);
}

/** Largest offer first, ties in the fleet's order. */
export const byMostGpus = <Offer extends ClusterOffer>(
  offers: readonly Offer[],
): readonly Offer[] => [...offers].sort((a, b) => b.gpus - a.gpus || a.rank - b.rank);
