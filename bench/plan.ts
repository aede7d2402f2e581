/** @file `bench plan`: cuts of graphs beside references and rivals, the step-time model, and the buddy allocator. */

import { size, type Bench } from "./bench.ts";

const PLAN_PARTS = [
  "cuts",
  "models",
  "pipelines",
  "shares",
  "links",
  "four-sites",
  "splits",
  "fit",
  "buddy",
  "together",
  "learning",
] as const;
export type PlanPart = (typeof PLAN_PARTS)[number];

export const planBench: Bench = {
  name: "plan",
  summary: "how a model is split: cuts of graphs, predicted steps, GPUs of a cluster in blocks",
  description:
    "Cuts drawn graphs (uniform and clustered, weighted, connected) and graphs of models into 4, 8 and 16 parts within 3 %\n" +
    "and into the uneven ones of 2, 2, 2, 2, 2, 4, 1 and 1 GPUs; every cut is verified and compared with the best known one\n" +
    "(data/plan), and graphs of models into pipelines of 4, 8 and 16 stages, beside the best known slowest stage. Reproduces figures 1, 10\n" +
    "and 11 of SpiderFlow, compares predicted steps with a flow simulation and all candidates with what links carry, plans\n" +
    "a model of 405 billion parameters and one of 256 experts on 1,024 GPUs over four sites, compares the plan found with the best of all splits on\n" +
    "a hundred drawn sites of at most 32 GPUs, fits the step-time\n" +
    "model on five rows of a profile, tests it on the others, compares the buddy allocator with best fit on the same arrivals, and plans whose places were chosen\n" +
    "for them with plans for the most compact place, on drawn fleets with uneven fabrics. Plans jobs on GPUs and links whose true speeds nobody\n" +
    "knows, before ten runs were measured and after.",
  options: [
    { kind: "choice", name: "only", choices: PLAN_PARTS, what: "measure only these parts" },
    { kind: "text", name: "graph", value: "file", what: "cut this graph and nothing else" },
    {
      kind: "text",
      name: "parts",
      value: "counts",
      what: "part counts, or uneven (default: 4,8,16,uneven)",
    },
    {
      kind: "text",
      name: "profiles",
      value: "dir",
      what: "further profiles: sia/<app>/placements*.csv",
    },
    size("seeds", "graphs of each kind and size, counted from --seed", { usual: 20 }),
    size("rivals", "graphs of each kind and size that the rivals cut as well", {
      usual: 1,
      least: 0,
    }),
    size("rival-seconds", "time limit of each rival for a cut", { usual: 20 }),
  ],
  examples: [
    ["orbweaver bench plan", "all of it"],
    [
      "orbweaver bench plan --graph my.graph --parts 8",
      "a graph of your own: METIS, MSR, PipeDream, edges",
    ],
    ["orbweaver bench plan --only cuts --seeds 3 --rivals 0", "a quick look"],
    [
      "orbweaver bench plan --only splits --seed 7",
      "the search beside all splits of a hundred sites: takes long",
    ],
    ["orbweaver bench plan --only four-sites --json", "two large models, for a machine"],
  ],
  draws: true,
  run: async (request) => (await import("./plan/run.ts")).runPlan(request),
};
