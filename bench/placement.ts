/** @file `bench placement`: which clusters, SpinSearch and the lexicographic optimum beside their rivals. */

import { size, type Bench } from "./bench.ts";

const PLACEMENT_PARTS = ["speed", "quality", "scale"] as const;
export type PlacementPart = (typeof PLACEMENT_PARTS)[number];

export const placementBench: Bench = {
  name: "placement",
  summary: "which clusters: time of decisions, and how far each method is from the optimum",
  description:
    "Gangs come and go on a ledger of clusters with irregular links that gangs share; every method decides for the same\n" +
    "arrivals. Better is: fewer clusters, then the higher bottleneck bandwidth, then fewer GPUs stranded. Up to twelve\n" +
    "clusters an exhaustive search gives the optimum; beyond that integer programs do, on a few states.",
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
    size("gpus", "GPUs of each cluster of --links", { usual: 56 }),
    size("decisions", "timed decisions", { usual: 10_000, least: 100 }),
    size("genetic", "timed decisions of the genetic search, scaled to all", { usual: 200 }),
    size("ilp", "timed decisions of the integer programs, scaled to all", { usual: 8 }),
    size("scenes", "states for which an exhaustive search finds the optimum", {
      usual: 2_000,
      least: 10,
    }),
    size("second-opinions", "states of the large fleet for which integer programs find it", {
      usual: 6,
      least: 0,
    }),
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
