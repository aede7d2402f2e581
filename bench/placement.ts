/** @file `bench placement`: which clusters, SpinSearch and the lexicographic optimum beside their rivals. */

import { size, type Bench } from "./bench.ts";

export const PLACEMENT_PARTS = ["speed", "quality", "scale"] as const;
export type PlacementPart = (typeof PLACEMENT_PARTS)[number];

export const placementBench: Bench = {
  name: "placement",
  summary: "which clusters: time of decisions, and how far each method is from the optimum",
  description:
    "Gangs come and go on a ledger of clusters with irregular links that gangs share; every method decides for the same\n" +
    "arrivals. Better is: fewer clusters, then the higher bottleneck bandwidth, then fewer GPUs stranded. Up to twelve\n" +
    "clusters an exhaustive search is the judge, beyond that integer programs on a few states.",
  options: [
    { kind: "choice", name: "only", choices: PLACEMENT_PARTS, what: "measure only these parts" },
    {
      kind: "text",
      name: "clusters",
      value: "file",
      what: "other clusters and links for all parts: a fleet.yaml",
    },
    {
      kind: "text",
      name: "links",
      value: "file",
      what: "other links: a CSV of region pairs with their bandwidth (Skyplane's or DT-FM's columns)",
    },
    size("gpus", 56, 1, "GPUs of each cluster of --links"),
    size("decisions", 10_000, 100, "decisions that are timed"),
    size("genetic", 200, 1, "decisions of the genetic search that are timed, and scaled"),
    size("ilp", 8, 1, "decisions of the integer programs that are timed, and scaled"),
    size("scenes", 2_000, 10, "states that an exhaustive search judges"),
    size("second-opinions", 6, 0, "states of the large fleet that integer programs judge"),
  ],
  draws: true,
  examples: [
    ["orbweaver bench placement", "everything, a few minutes"],
    ["orbweaver bench placement --only speed --json", "the times alone"],
    ["orbweaver bench placement --clusters fleet.yaml", "on clusters of your own"],
    ["orbweaver bench placement --links throughput.csv.gz --gpus 64", "on measured links"],
    ["orbweaver bench placement --plot figures", "the times as SVG"],
  ],
  run: async (request) => (await import("./placement/run.ts")).runPlacement(request),
};
