/** @file `bench floods`: how long another tenant's job of one GPU takes while a live fleet is flooded, and afterwards. */

import { size, type Bench } from "./bench.ts";

export const FLOOD_PARTS = [
  "constraints",
  "requests",
  "jobs",
  "arrays",
  "junk",
  "more-junk",
  "files",
  "calls",
] as const;
export type FloodPart = (typeof FLOOD_PARTS)[number];

export const floodsBench: Bench = {
  name: "floods",
  summary: "another tenant's job while a live fleet is flooded",
  description:
    "Starts a Temporal server of its own, workers and an agent as real processes. One process floods them, always with as\n" +
    "many calls in flight: jobs with 7 KiB of constraints, small requests, arrays of 100,000 tasks, junk signals, job files of a megabyte, wrong\n" +
    "calls. Meanwhile another tenant submits a job of one GPU every second. Each flood has a fleet of its own; its idle\n" +
    "figure is measured in the same run.",
  options: [
    { kind: "choice", name: "only", choices: FLOOD_PARTS, what: "measure only these floods" },
    {
      kind: "text",
      name: "address",
      value: "host:port",
      what: "use this Temporal server, which has no other Orbweaver workers",
    },
    size("in-flight", "calls of the flood at a time", { usual: 50 }),
    size("rounds", "jobs for the idle figure, and as many afterwards", { usual: 10 }),
    size("constraints", "jobs with long constraints", { usual: 300 }),
    size("requests", "small requests, 500 in a signal", { usual: 20_000 }),
    size("jobs", "small jobs, each a workflow", { usual: 2_000 }),
    size("arrays", "arrays of 100,000 tasks", { usual: 100 }),
    size("junk", "junk signals of 100 bytes; of `more-junk` twice as many", { usual: 5_000 }),
    size("files", "job files of a megabyte", { usual: 200 }),
    size("calls", "updates and queries with wrong arguments", { usual: 5_000 }),
  ],
  examples: [
    ["orbweaver bench floods", "every flood; about ten minutes on two cores"],
    ["orbweaver bench floods --only junk --json", "one of them, for a machine"],
  ],
  run: async (request) => (await import("./floods/run.ts")).runFloods(request),
};
