/** @file `bench queue`: weighted fair queuing beside its rivals, in the simulator, on the same arrivals. */

import { size, type Bench } from "./bench.ts";

export const QUEUE_PARTS = [
  "policies",
  "degradation",
  "sweep",
  "placement",
  "decisions",
  "estimates",
  "speed",
] as const;
export type QueuePart = (typeof QUEUE_PARTS)[number];

export const queueBench: Bench = {
  name: "queue",
  summary: "weighted fair queuing beside its rivals, on the same arrivals",
  description:
    "Simulates 1,798 GPUs in three sites under FIFO, bin-packing, DRF, EASY and conservative backfill, and\n" +
    "TAWFQ, with the product's own decide and apply. The workload was fitted to the rivals' figures of the\n" +
    "paper and frozen before TAWFQ ran on it. Means over the seeds; the same seed gives the same figures.",
  options: [
    { kind: "choice", name: "only", choices: QUEUE_PARTS, what: "measure only these parts" },
    size("jobs", 2_500, 100, "jobs of each simulation"),
    size("seeds", 4, 1, "seeds, counted from --seed"),
    size("sweep-jobs", 1_500, 100, "jobs of each simulation of the sweep"),
    size("placements", 400, 10, "gangs whose placement is measured"),
    size("decisions", 3_000, 100, "grants whose speed is measured"),
    size("decision-hosts", 640, 8, "hosts of the fleet on which they are"),
    size("estimates", 300, 1, "times at which jobs are asked about when they will start"),
    size("estimate-jobs", 10_000, 100, "jobs of the trace with which they are"),
    size(
      "speed-jobs",
      3_500,
      100,
      "jobs of Philly with which the simulator's speed is measured, and a fifth as many of the mix",
    ),
    size("decision-ms", 0, 0, "charge this for a decision; 0: what one takes here, p99"),
    size("live-delay-ms", 274, 0, "what the live control plane adds to a wait"),
    size("calibration-rounds", 0, 0, "repeat the fit of the workload first"),
  ],
  examples: [
    ["orbweaver bench queue", "everything"],
    ["orbweaver bench queue --only policies --jobs 1000 --seeds 1", "a quick look"],
    ["orbweaver bench queue --json --decision-ms 5", "the same bytes on every machine"],
  ],
  run: async (request) => (await import("./queue/run.ts")).runQueue(request),
};
