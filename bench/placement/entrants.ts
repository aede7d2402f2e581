/** @file The methods that the bench compares, each with its budget. */

import type { ClusterPolicy } from "../../scheduling/placement/cluster-policy.ts";
import { bestClusters, DEFAULT_BEST } from "../../scheduling/placement/best-clusters.ts";
import { DEFAULT_GENETIC, geneticClusters } from "../rivals/placement/genetic-clusters.ts";
import { lyra, mast, opportunistic } from "../rivals/placement/clusters.ts";
import { spinSearchLiteral } from "../rivals/placement/spin-search-literal.ts";
import { spinSearch } from "../../scheduling/placement/spin-search.ts";

export interface Entrant {
  readonly name: string;
  readonly policy: ClusterPolicy;
  readonly budget: string;
  /** Timed on fewer decisions. */
  readonly isSlow?: true;
}

/** Every fourth cluster serves inference; its load is 0, which is Lyra's best case: it may borrow all of them. */
export const ownsReservation = (cluster: number): boolean => cluster % 4 === 3;

export function entrantsFor(clusters: number): readonly Entrant[] {
  const isInference = Array.from({ length: clusters }, (_, cluster) => ownsReservation(cluster));
  const { population, generations } = DEFAULT_GENETIC;
  return [
    {
      name: "ours",
      policy: bestClusters,
      budget: `exact; subset tables up to ${String(DEFAULT_BEST.mostWords / 1e6)} million words`,
    },
    { name: "SpinSearch", policy: spinSearch, budget: "none, the order of §4.1.4" },
    { name: "SpinSearch, literal", policy: spinSearchLiteral, budget: "none, §4.1.2 and §4.1.3" },
    { name: "Opportunistic", policy: opportunistic, budget: "none, one pass" },
    {
      name: "Lyra",
      policy: lyra({ isInference }),
      budget: "none; every fourth cluster lends, inference load 0",
    },
    { name: "MAST", policy: mast, budget: "none; one cluster only" },
    {
      name: "DT-FM",
      policy: geneticClusters(DEFAULT_GENETIC),
      budget: `${String(population)} orders, ${String(generations)} generations`,
      isSlow: true,
    },
  ];
}
