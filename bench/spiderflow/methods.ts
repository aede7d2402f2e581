/**
 * @file The methods of `bench spiderflow`: ours in steps, the paper's and its rivals, each with the splits that it knows of.
 *
 * DT-FM has its own cost and arranges pieces for the degrees that it is given. The row after it has our objective and TPA's degrees as well: what a
 * genetic search could reach with both. Only the last row of ours judges sets by predicted steps and waits where that ends sooner.
 */

import { bestClusters } from "../../scheduling/placement/best-clusters.ts";
import { DEFAULT_GENETIC, geneticClusters } from "../../scheduling/placement/genetic-clusters.ts";
import { lyra, mast, opportunistic } from "../../scheduling/placement/rival-clusters.ts";
import { spinSearch } from "../../scheduling/placement/spin-search.ts";
import type { Method } from "../../simulator/spiderflow/play.ts";
import { isLender } from "../placement/entrants.ts";
import type { Scene } from "./scenes.ts";

/** Ours with everything: bars are judged on it where it plays, else on the one that starts at once. */
export const OURS = "ours + TPA, foreseeing";
export const OURS_AT_ONCE = "ours + TPA";

/** Looking ahead asks for a step of each gang at each end; with gangs of hundreds of GPUs that takes minutes. */
const MOST_FORESEEN_GPUS = 64;

const isSmall = ({ gpus }: Scene["fleet"]): boolean =>
  gpus.reduce((sum, own) => sum + own, 0) <= MOST_FORESEEN_GPUS;

export function methodsFor({ fleet }: Scene): readonly Method[] {
  const isInference = fleet.gpus.map((_, cluster) => isLender(cluster));
  const largest = Math.max(...fleet.gpus);
  return [
    { name: "Opportunistic", policy: opportunistic, split: "plain" },
    { name: "Opportunistic + TPA", policy: opportunistic, split: "planned" },
    { name: "+ SpinSearch", policy: spinSearch, split: "plain" },
    { name: "+ ours", policy: bestClusters, split: "plain" },
    { name: "SpinSearch + TPA", policy: spinSearch, split: "planned" },
    { name: OURS_AT_ONCE, policy: bestClusters, split: "planned" },
    ...(isSmall(fleet)
      ? [{ name: OURS, policy: bestClusters, split: "planned", foresees: true } as const]
      : []),
    { name: "Lyra", policy: lyra({ isInference }), split: "plain" },
    {
      name: "DT-FM",
      policy: geneticClusters({ ...DEFAULT_GENETIC, objective: "communication" }),
      split: "arranged",
    },
    {
      name: "DT-FM + ours + TPA",
      policy: geneticClusters(DEFAULT_GENETIC),
      split: "planned",
    },
    { name: "MAST", policy: mast, split: "plain", most: largest },
  ];
}

/** The paper's, and what the paper itself had. */
export const RIVALS = ["Opportunistic", "Lyra", "DT-FM", "MAST", "SpinSearch + TPA"] as const;
