/**
 * @file The methods of `bench spiderflow`: ours in steps, the paper's and its rivals, each with the splits that it knows of.
 *
 * DT-FM has its own cost and arranges pieces for the degrees that it is given. The row after it has our objective and TPA's degrees as well: what a
 * genetic search could reach with both. ILP is what integer programs reach that take all GPUs of a gang: the exact optimum of the clusters (the same as ours:
 * `bench placement` holds them against each other) and the best of all degrees. TPA may let clusters of a gang idle, as d · p ≤ r allows.
 */

import { bestClusters } from "../../scheduling/placement/best-clusters.ts";
import { DEFAULT_GENETIC, geneticClusters } from "../rivals/placement/genetic-clusters.ts";
import { lyra, mast, opportunistic } from "../rivals/placement/clusters.ts";
import { spinSearch } from "../../scheduling/placement/spin-search.ts";
import type { Method } from "../../simulator/spiderflow/play.ts";
import { ownsReservation } from "../placement/entrants.ts";
import type { Scene } from "./scenes.ts";

/** The bars are about this method. */
export const OURS = "ours + TPA";

export function methodsFor({ fleet }: Scene): readonly Method[] {
  const isInference = fleet.gpus.map((_, cluster) => ownsReservation(cluster));
  const largest = Math.max(...fleet.gpus);
  return [
    { name: "Opportunistic", policy: opportunistic, split: "plain" },
    { name: "Opportunistic + TPA", policy: opportunistic, split: "sparing" },
    { name: "+ SpinSearch", policy: spinSearch, split: "plain" },
    { name: "+ ours", policy: bestClusters, split: "plain" },
    { name: "SpinSearch + TPA, all GPUs", policy: spinSearch, split: "planned" },
    { name: "SpinSearch + TPA", policy: spinSearch, split: "sparing" },
    { name: OURS, policy: bestClusters, split: "sparing" },
    { name: "Lyra", policy: lyra({ isInference }), split: "plain" },
    {
      name: "DT-FM",
      policy: geneticClusters({ ...DEFAULT_GENETIC, objective: "communication" }),
      split: "arranged",
    },
    {
      name: "DT-FM + ours + TPA",
      policy: geneticClusters(DEFAULT_GENETIC),
      split: "sparing",
    },
    { name: "ILP", policy: bestClusters, split: "planned" },
    { name: "MAST", policy: mast, split: "plain", most: largest },
  ];
}

/** Five; the paper's own method, SpinSearch + TPA, is not among them. */
export const RIVALS = ["Opportunistic", "Lyra", "DT-FM", "MAST", "ILP"] as const;
