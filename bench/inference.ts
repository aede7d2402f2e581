/** @file `bench inference`: one model over the GPUs of one host, SortingHat's cells, ours beside its rivals. */

import { size, type Bench } from "./bench.ts";

const INFERENCE_PARTS = [
  "compare",
  "layouts",
  "live",
  "polish",
  "p4d",
  "remaining",
  "sweep",
  "ablation",
  "optimum",
  "milp",
  "executor",
] as const;
export type InferencePart = (typeof INFERENCE_PARTS)[number];

export const inferenceBench: Bench = {
  name: "inference",
  summary: "one model over the GPUs of one host, beside one GPU, DeepPlan and EfficientMIP",
  description:
    "Plans four models at four input shapes on the paper's three servers and on p4d.24xlarge, and executes every plan,\n" +
    "ours and the rivals', in a simulator of the paper's executor with 5 % noise on kernels. Latency is cold: from\n" +
    "parameters in pinned host memory to the last output. All speed-ups are over one GPU: copies first, then kernels.\n" +
    "The part `layouts` plans the A6000 server once for each way in which its three GPUs can share PCIe buses.\n" +
    "The part `live` executes the plan of a served job with its GPUs' topology beside one by their number,\n" +
    "on simulated devices and on a stand-in whose buses are really shared.\n" +
    "The part `polish` lets a solver better six plans, as it does for a served model that stays.\n" +
    "The part `executor` is `bench serving`: a split model that really runs on this machine's cores, which must be idle.",
  options: [
    { kind: "choice", name: "only", choices: INFERENCE_PARTS, what: "measure only these parts" },
    { kind: "text", name: "graph", value: "file", what: "plan this model instead of the paper's" },
    {
      kind: "text",
      name: "host",
      value: "file",
      what: "on this host (with --graph); data/hosts/v100.yaml",
    },
    {
      kind: "text",
      name: "profiled-on",
      value: "type",
      what: "GPU type on which the times of --graph were measured (V100)",
    },
    size("estimates", "estimates of each search; 0: the planner's own choice", {
      usual: 0,
      least: 0,
    }),
    size("draws", "draws of kernel noise for each plan", { usual: 5 }),
    size("cases", "proven cases that the search is compared with", { usual: 256 }),
    size("prove", "how many of these HiGHS proves again", { usual: 3, least: 0 }),
    size("milp-seconds", "time of each submodel's MILP; 0: no MILP", { usual: 1, least: 0 }),
    size("polish-seconds", "time in which a solver may better each plan", { usual: 60, least: 3 }),
  ],
  draws: true,
  examples: [
    ["orbweaver bench inference", "everything"],
    ["orbweaver bench inference --only compare --json", "the paper's table"],
    ["orbweaver bench inference --graph model.onnx", "another model, on the paper's V100 server"],
    ["orbweaver bench inference --graph model.onnx --host host.yaml", "another model and host"],
    ["orbweaver bench inference --only optimum --cases 200 --prove 20", "against proven optima"],
    ["orbweaver bench inference --plot figures", "the paper's figures as SVG"],
  ],
  run: async (request) => (await import("./inference/run.ts")).runInference(request),
};
