/** @file `bench pick`: which GPUs, BandPilot's protocol on the paper's measured data, ours beside its rivals. */

import { size, type Bench } from "./bench.ts";

const PICK_PARTS = [
  "compare",
  "accuracy",
  "speed",
  "scale",
  "neighbours",
  "drift",
  "granted",
  "sizes",
] as const;
export type PickPart = (typeof PICK_PARTS)[number];

const PICK_CLUSTERS = ["H100", "Het-4Mix", "Het-RA", "Het-VA"] as const;

export const pickBench: Bench = {
  name: "pick",
  summary: "which GPUs: bandwidth of the pick beside the best and beside the paper's dispatchers",
  description:
    "Trains the bandwidth model on few measurements, lets every dispatcher pick GPUs in the same states of the\n" +
    "cluster, and values the picks by measured bandwidths. The number of free GPUs is uniform from the size of the\n" +
    "request to all GPUs, and the set is a uniform subset; no mean counts forced picks and single GPUs.",
  options: [
    { kind: "choice", name: "only", choices: PICK_PARTS, what: "measure only these parts" },
    { kind: "choice", name: "clusters", choices: PICK_CLUSTERS, what: "compare on these only" },
    {
      kind: "choice",
      name: "training",
      choices: ["mixed", "planned", "chosen", "drawn", "all"],
      what: "training sets (mixed): as fleet measure takes them, planned, those that decide picks, any",
    },
    { kind: "text", name: "intra", value: "file", what: "other measurements inside hosts" },
    { kind: "text", name: "inter", value: "file", what: "other measurements over hosts" },
    {
      kind: "text",
      name: "intra-at",
      value: "size=file,…",
      what: "measurements inside hosts at several sizes of messages, for --only sizes",
    },
    {
      kind: "text",
      name: "inter-at",
      value: "size=file,…",
      what: "the same over hosts, of the same sizes",
    },
    {
      kind: "text",
      name: "fabric",
      value: "names",
      what: "judge picks on these fabrics instead: all, names of data/fabrics, or files",
    },
    size("gpus", "GPUs of the cluster on a fabric", { usual: 1_024, least: 32 }),
    size("states", "states of the cluster on a fabric that are judged", { usual: 12 }),
    size("random-sets", "random sets among which a fabric's oracle looks", { usual: 10_000 }),
    size("seeds", "seeds, counted from --seed", { usual: 3 }),
    size("each", "states of the cluster for each size of request", { usual: 50 }),
    size("largest", "largest request", { usual: 32, least: 2 }),
    size(
      "samples",
      "size of the training set; 0: 25, 50, 100, 250, 400; of mixed clusters 50 to 500",
      {
        usual: 0,
        least: 0,
      },
    ),
    size("decisions", "picks timed among 1,798 GPUs, or on a fabric", { usual: 200, least: 10 }),
    size("jobs", "jobs that share network cards", { usual: 200, least: 10 }),
    size("recorded", "jobs of the fleet whose grants are judged", { usual: 300, least: 20 }),
  ],
  draws: true,
  examples: [
    ["orbweaver bench pick", "everything"],
    ["orbweaver bench pick --only compare --clusters H100 --samples 250", "one table"],
    ["orbweaver bench pick --only granted", "what the live fleet grants, judged by replay"],
    ["orbweaver bench pick --intra intra.csv --inter inter.csv --json", "other measurements"],
    [
      "orbweaver bench pick --intra-at 16MiB=a,2GiB=b --inter-at 16MiB=c,2GiB=d",
      "also picks at a size of which 25 sets were measured",
    ],
    ["orbweaver bench pick --fabric all --gpus 1024", "achieved bandwidth on large fabrics"],
    ["orbweaver bench pick --plot figures", "the paper's figures as SVG"],
  ],
  run: async (request) => (await import("./pick/run.ts")).runPick(request),
};
