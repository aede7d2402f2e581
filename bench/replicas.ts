/** @file `bench replicas`: a service of a language model under bursts, its replicas by the endpoint's own rules, in simulated time. */

import { size, type Bench } from "./bench.ts";

export const replicasBench: Bench = {
  name: "replicas",
  summary: "a language model's replicas under bursts of requests",
  description:
    "Plays a service of llama-3-8b, a GPU a replica, by a stated model of an engine with\n" +
    "continuous batching. Requests need 10, 20 and 30 % of 64 GPUs in the mean: quiet\n" +
    "times (mean 270 s), and bursts (mean 30 s) at three times the rate; three seeds from\n" +
    "--seed on. Which replica answers and how many there are is decided by the endpoint's\n" +
    "own rules. Bars: answers within both times; GPU time over the least that any count\n" +
    "of replicas needs. The rules were set on seeds 1 to 3.",
  options: [
    size("ttft", "milliseconds to the first token", { usual: 2_000 }),
    size("tpot", "milliseconds for each further token", { usual: 40 }),
    size("start", "milliseconds from a replica's want to its first answer", { usual: 600 }),
    size("seconds", "length of a play", { usual: 1_200, least: 60 }),
  ],
  examples: [
    ["orbweaver bench replicas --seed 11", "seeds 11 to 13"],
    ["orbweaver bench replicas --start 20000", "an engine that loads its weights from disk"],
  ],
  run: async (request) => (await import("./replicas/run.ts")).runReplicas(request),
};
