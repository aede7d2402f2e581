/** @file `bench queue`: weighted fair queuing beside its rivals, in the simulator, on the same arrivals. */

import { size, type Bench } from "./bench.ts";

const QUEUE_PARTS = [
  "policies",
  "degradation",
  "sweep",
  "placement",
  "decisions",
  "estimates",
  "speed",
  "bursts",
] as const;
export type QueuePart = (typeof QUEUE_PARTS)[number];

const BURST_RIVALS = [
  "partition",
  "fifo-backfill",
  "easy",
  "las",
  "qssf",
  "fifo-weights",
  "las-weights",
  "qssf-weights",
] as const;
export type BurstRival = (typeof BURST_RIVALS)[number];

export const queueBench: Bench = {
  name: "queue",
  summary: "weighted fair queuing beside its rivals, on the same arrivals",
  description:
    "Simulates 1,798 GPUs in three sites under FIFO, bin-packing, DRF, EASY and conservative backfill, and\n" +
    "TAWFQ, with the product's own decide and apply. The workload was fitted to the rivals' figures of the\n" +
    "paper and frozen before TAWFQ ran on it. Means over the seeds; the same seed gives the same figures.",
  options: [
    { kind: "choice", name: "only", choices: QUEUE_PARTS, what: "measure only these parts" },
    size("jobs", "jobs of each simulation", { usual: 2_500, least: 100 }),
    size("seeds", "seeds, counted from --seed", { usual: 4 }),
    size("sweep-jobs", "jobs of each simulation of the sweep", { usual: 1_500, least: 100 }),
    size("placements", "gangs whose placement is measured", { usual: 400, least: 10 }),
    size("decisions", "grants whose speed is measured", { usual: 3_000, least: 100 }),
    size("decision-hosts", "hosts of the fleet for these grants", { usual: 640, least: 8 }),
    size("estimates", "times at which the starts of waiting jobs are estimated", { usual: 300 }),
    size("estimate-jobs", "jobs of the trace for these estimates", { usual: 10_000, least: 100 }),
    size("speed-jobs", "jobs of Philly for the simulator's speed, and a fifth as many of the mix", {
      usual: 3_500,
      least: 100,
    }),
    size("decision-ms", "time charged for a decision; 0: the p99 measured on this machine", {
      usual: 0,
      least: 0,
    }),
    size("live-delay-ms", "time that the live control plane adds to a wait", {
      usual: 274,
      least: 0,
    }),
    {
      kind: "choice",
      name: "shares",
      choices: ["10", "20", "30"],
      what: "bursts: inference holds so much of the fleet, %",
    },
    { kind: "choice", name: "rivals", choices: BURST_RIVALS, what: "bursts: only beside these" },
    size("burst-seeds", "of the five frozen seeds of the bursts", { usual: 5 }),
    size("burst-minutes", "minutes of bursts that count", { usual: 120 }),
    size("burst-warm-up", "minutes of bursts before these, which do not count", { usual: 15 }),
    size("calibration-rounds", "repeat the fit of the workload first", { usual: 0, least: 0 }),
  ],
  examples: [
    ["orbweaver bench queue", "everything"],
    ["orbweaver bench queue --only policies --jobs 1000 --seeds 1", "a quick look"],
    ["orbweaver bench queue --only bursts --shares 10 --rivals partition", "inference as a load"],
    ["orbweaver bench queue --json --decision-ms 5", "the same bytes on every machine"],
  ],
  run: async (request) => (await import("./queue/run.ts")).runQueue(request),
};
