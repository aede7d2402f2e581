/** @file `bench crowd`: a million requests through the machines of a fleet and its lobbies, in process. */

import { size, type Bench } from "./bench.ts";

export const crowdBench: Bench = {
  name: "crowd",
  summary: "a million requests through a fleet's and its lobbies' machines",
  description:
    "Plays the machines of a fleet, of the lobbies of its tenants and of minimal jobs in one process, without a\n" +
    "server: one tenant submits half of all jobs, all at once, the others the rest. The decider is a cheap\n" +
    "one; lobbies keep their rows in files. Counts jobs that were lost, started twice or overtaken, and the\n" +
    "memory that the machines take.",
  options: [
    size("jobs", "requests", { usual: 1_000_000, least: 1_000 }),
    size("tenants", "tenants", { usual: 20, least: 2 }),
    size("gpus", "GPUs of the fleet; each job takes one", { usual: 1_024, least: 64 }),
    size("places", "requests that may wait inside", { usual: 2_048, least: 64 }),
  ],
  examples: [
    ["orbweaver bench crowd", "a million requests; minutes"],
    ["orbweaver bench crowd --jobs 50000", "a quick look"],
  ],
  run: async (request) => (await import("./crowd/run.ts")).runCrowd(request),
};
