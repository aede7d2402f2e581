/** @file `bench live`: the figures of the running product beside Temporal's own floor. What it measures stands in docs/benchmarks.md. */

import { size, type Bench } from "./bench.ts";

const LIVE_PARTS = [
  "granted",
  "signed",
  "jobs",
  "array",
  "command",
  "burst",
  "shown",
  "cycle",
  "idle",
  "zero",
] as const;
export type LivePart = (typeof LIVE_PARTS)[number];

export const liveBench: Bench = {
  name: "live",
  summary: "the running product beside Temporal's own floor",
  description:
    "Starts a Temporal server of its own, workers and agents as real processes, and measures them: how\n" +
    "soon a job is granted and runs, what proof of who speaks adds to that, jobs and array tasks a second,\n" +
    "how soon the command line answers, how soon an answer is shown, one scheduling cycle of a large\n" +
    "fleet, the calls of an idle fleet to the server, and how it starts from no process. The floor of every ratio is measured in the same run, alternating.",
  options: [
    {
      kind: "choice",
      name: "only",
      choices: LIVE_PARTS,
      what: "measure only these parts",
    },
    {
      kind: "text",
      name: "address",
      value: "host:port",
      what: "use this Temporal server, which has no other Orbweaver workers",
    },
    size("rounds", "jobs, one at a time, for the latencies", { usual: 60 }),
    size("pairs", "pairs of jobs with and without proof of who speaks", { usual: 200 }),
    size("jobs", "jobs for the rate of jobs", { usual: 200 }),
    size("blocks", "blocks in which these are submitted, alternating with the floor's", {
      usual: 2,
    }),
    size("tasks", "tasks of the job array", { usual: 1_000 }),
    size("listed-jobs", "waiting jobs that the command line lists", { usual: 1_000 }),
    size("command-rounds", "runs of each command, in turns with an empty Node process", {
      usual: 15,
    }),
    size("bursts", "bursts of inference jobs while training holds most of the fleet", {
      usual: 5,
    }),
    size("shown-hosts", "hosts of the fleet for the time until an answer is shown", {
      usual: 640,
      least: 64,
    }),
    size("shown-rounds", "jobs of each kind for that time; a fifth as many large gangs", {
      usual: 10,
    }),
    size("gpus", "GPUs of the fleet of the scheduling cycle", { usual: 6_000, least: 8 }),
    size("requests", "requests that wait in the scheduling cycle", { usual: 10_000 }),
    size("ledgers", "ledgers on which the cycle is measured", { usual: 20 }),
    size("hosts", "hosts of the idle fleet", { usual: 1_000 }),
    size("idle-agents", "agents that really run; the figure of fewer is scaled up to the hosts", {
      usual: 1_000,
    }),
    size("idle-seconds", "how long the idle fleet is watched", { usual: 120, least: 10 }),
    size("cold-rounds", "jobs that start the control plane when none of its processes runs", {
      usual: 20,
    }),
    size("long-hosts", "hosts of the fleet whose long jobs start it", { usual: 1_000 }),
    size("watch-seconds", "how long these starts are counted; 0 leaves the part out", {
      usual: 180,
      least: 0,
    }),
  ],
  examples: [
    ["orbweaver bench live", "everything; about twenty minutes on two cores"],
    ["orbweaver bench live --only granted,jobs --json", "the two ratios, for a machine"],
    ["orbweaver bench live --only cycle --seed 7", "no server at all: one scheduling cycle"],
  ],
  run: async (request) => (await import("./live/run.ts")).runLive(request),
};
