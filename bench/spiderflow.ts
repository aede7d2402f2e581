/** @file `bench spiderflow`: queues of training jobs over clusters, the paper's §5.3, §5.5, §5.6 and A.3. */

import { size, type Bench } from "./bench.ts";

export const SPIDERFLOW_PARTS = ["breakdown", "testbed", "large", "scaling"] as const;
export type SpiderflowPart = (typeof SPIDERFLOW_PARTS)[number];

export const SPIDERFLOW_LOADS = ["0.8", "1.0", "1.2", "stable"] as const;

export const spiderflowBench: Bench = {
  name: "spiderflow",
  summary: "queues of training jobs over clusters: queuing and completion times beside five rivals",
  description:
    "Plays the same jobs under every method of choosing clusters, behind one FIFO queue without preemption, backfill or\n" +
    "degradation. Arrivals and durations are those of Philly and Helios, models and GPUs are drawn (docs/placement.md says\n" +
    "how, and the mapping is printed); times of steps are predicted by the product's own model of a step.",
  options: [
    { kind: "choice", name: "only", choices: SPIDERFLOW_PARTS, what: "measure only these parts" },
    {
      kind: "choice",
      name: "loads",
      choices: SPIDERFLOW_LOADS,
      what: "offered loads: GPU time asked for ÷ GPU time there is while jobs arrive; stable: the most that Opportunistic bears",
    },
    size("jobs", 1_000, 10, "jobs of the breakdown"),
    size("testbed-jobs", 300, 10, "jobs of the testbed"),
    size("large-jobs", 10_000, 10, "jobs of six clusters with 3,072 GPUs"),
    size("scaling-jobs", 2_000, 10, "jobs of 1 to 64 clusters"),
    size("seeds", 5, 1, "seeds of the breakdown and the testbed, counted from --seed"),
    size("beyond", 35, 0, "percent of jobs that ask for more than the largest cluster"),
  ],
  examples: [
    ["orbweaver bench spiderflow", "everything"],
    ["orbweaver bench spiderflow --only breakdown --loads 1.0", "QT and JCT, step by step"],
    ["orbweaver bench spiderflow --only testbed --json", "the paper's eight servers"],
    ["orbweaver bench spiderflow --plot figures", "figures 6 to 9 and 12 as well"],
  ],
  draws: true,
  run: async (request) => (await import("./spiderflow/run.ts")).runSpiderflow(request),
};
