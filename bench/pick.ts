/** @file `bench pick`: which GPUs, BandPilot's protocol on the paper's measured data, ours beside its rivals. */

import { size, type Bench } from "./bench.ts";

export const PICK_PARTS = ["compare", "accuracy", "speed", "scale", "neighbours", "drift"] as const;
export type PickPart = (typeof PICK_PARTS)[number];

export const PICK_CLUSTERS = ["H100", "Het-4Mix", "Het-RA", "Het-VA"] as const;

export const pickBench: Bench = {
  name: "pick",
  summary: "which GPUs: bandwidth of the pick beside the best and beside the paper's dispatchers",
  description:
    "Trains the bandwidth model on few measurements, lets every dispatcher pick GPUs in the same states of the\n" +
    "cluster, and values the picks by what was measured. How many GPUs are free is uniform from the size of the\n" +
    "request to all of them, which ones is a uniform subset; forced picks and single GPUs count in no mean.",
  options: [
    { kind: "choice", name: "only", choices: PICK_PARTS, what: "measure only these parts" },
    { kind: "choice", name: "clusters", choices: PICK_CLUSTERS, what: "compare on these only" },
    {
      kind: "choice",
      name: "training",
      choices: ["mixed", "planned", "chosen", "drawn", "all"],
      what: "training sets (mixed): as fleet measure, planned, such as picks hesitate about, any",
    },
    { kind: "text", name: "intra", value: "file", what: "other measurements inside hosts" },
    { kind: "text", name: "inter", value: "file", what: "other measurements over hosts" },
    size("seeds", 3, 1, "seeds, counted from --seed"),
    size("each", 50, 1, "states of the cluster for each size of request"),
    size("largest", 32, 2, "largest request"),
    size(
      "samples",
      0,
      0,
      "size of the training set; 0: 50, 100, 250, 400, on mixed clusters 500 too",
    ),
    size("decisions", 200, 10, "picks that are timed among 1,798 GPUs"),
    size("jobs", 200, 10, "jobs that share network cards"),
  ],
  draws: true,
  examples: [
    ["orbweaver bench pick", "everything"],
    ["orbweaver bench pick --only compare --clusters H100 --samples 250", "one table"],
    ["orbweaver bench pick --intra intra.csv --inter inter.csv --json", "other measurements"],
    ["orbweaver bench pick --plot figures", "the paper's figures as SVG"],
  ],
  run: async (request) => (await import("./pick/run.ts")).runPick(request),
};
