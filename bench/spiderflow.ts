/** @file `bench spiderflow`: queues of training jobs over clusters, the paper's §5.3, §5.5, §5.6 and A.3. */

import { size, type Bench } from "./bench.ts";

const SPIDERFLOW_PARTS = ["breakdown", "testbed", "large", "scaling"] as const;
export type SpiderflowPart = (typeof SPIDERFLOW_PARTS)[number];

const SPIDERFLOW_LOADS = ["0.8", "1.0", "1.2", "stable"] as const;

export const spiderflowBench: Bench = {
  name: "spiderflow",
  summary: "queues of training jobs over clusters: queuing and completion times beside five rivals",
  description:
    "Plays the same jobs under every method of choosing clusters, behind one FIFO queue without preemption, backfill or\n" +
    "degradation. Arrivals and durations are those of Philly and Helios, models and GPUs are drawn (docs/placement.md says\n" +
    "how, and the mapping is printed); the product's own model of a step predicts step times.",
  options: [
    { kind: "choice", name: "only", choices: SPIDERFLOW_PARTS, what: "measure only these parts" },
    {
      kind: "choice",
      name: "loads",
      choices: SPIDERFLOW_LOADS,
      what: "offered loads: GPU time asked for ÷ GPU time there is while jobs arrive; stable: the highest load that Opportunistic sustains",
    },
    size("jobs", "jobs of the breakdown", { usual: 1_000, least: 10 }),
    size("testbed-jobs", "jobs of the testbed", { usual: 300, least: 10 }),
    size("large-jobs", "jobs of six clusters with 3,072 GPUs", { usual: 10_000, least: 10 }),
    size("scaling-jobs", "jobs of 1 to 64 clusters", { usual: 2_000, least: 10 }),
    size("seeds", "seeds of the breakdown and the testbed, counted from --seed", { usual: 5 }),
    size("beyond", "percent of jobs that ask for more than the largest cluster", {
      usual: 35,
      least: 0,
    }),
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
