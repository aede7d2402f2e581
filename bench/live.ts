/** @file `bench live`: the figures of the running product beside Temporal's own floor. What it measures stands in docs/benchmarks.md. */

import { size, type Bench } from "./bench.ts";

export const LIVE_PARTS = ["granted", "jobs", "array", "shown", "cycle", "idle", "zero"] as const;
export type LivePart = (typeof LIVE_PARTS)[number];

export const liveBench: Bench = {
  name: "live",
  summary: "the running product beside Temporal's own floor",
  description:
    "Starts a Temporal server of its own, workers and agents as real processes, and measures them: how\n" +
    "soon a job is granted and runs, jobs and array tasks a second, how soon an answer is shown, one\n" +
    "scheduling cycle of a large fleet, what an idle fleet asks of the server, and how it wakes from no\n" +
    "process at all. Every ratio has its floor measured in the same run, in turns.",
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
    size("rounds", 60, 1, "jobs, one at a time, for the latencies"),
    size("jobs", 200, 1, "jobs for the jobs a second"),
    size("blocks", 2, 1, "turns in which these are submitted, the floor's in between"),
    size("tasks", 1_000, 1, "tasks of the job array"),
    size("shown-hosts", 640, 64, "hosts of the fleet on which answers are waited for"),
    size("shown-rounds", 10, 1, "jobs of each kind whose answers are; a fifth for the large gang"),
    size("gpus", 6_000, 8, "GPUs of the fleet of the scheduling cycle"),
    size("requests", 10_000, 1, "requests that wait in the scheduling cycle"),
    size("ledgers", 20, 1, "ledgers that the cycle is measured on"),
    size("hosts", 1_000, 1, "hosts of the idle fleet"),
    size("idle-agents", 1_000, 1, "agents that really run; fewer are scaled up to the hosts"),
    size("idle-seconds", 120, 10, "how long the idle fleet is watched"),
    size("cold-rounds", 20, 1, "jobs that wake the control plane from no process"),
    size("long-hosts", 1_000, 1, "hosts of the fleet whose long jobs wake it"),
    size("watch-seconds", 180, 0, "how long these wake-ups are counted; 0 leaves them out"),
  ],
  examples: [
    ["orbweaver bench live", "everything; about twenty minutes on two cores"],
    ["orbweaver bench live --only granted,jobs --json", "the two ratios, for a machine"],
    ["orbweaver bench live --only cycle --seed 7", "no server at all: one scheduling cycle"],
  ],
  run: async (request) => (await import("./live/run.ts")).runLive(request),
};
