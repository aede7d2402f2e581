/** @file `bench traces`: the queue on real traces, beside rivals that have the same placement, costs and predictions. */

import { size, type Bench } from "./bench.ts";
import { FLEET_SIZES, LOADS, POLICY_NAMES, TRACE_NAMES, WINDOWS } from "./traces/names.ts";

export const tracesBench: Bench = {
  name: "traces",
  summary: "the queue on real traces, beside its rivals, on the same arrivals",
  description:
    "Simulates windows of 3,000 jobs of six traces with the product's own decide and apply, at loads of 0.7,\n" +
    "0.9 and 1.1, without time limits. By default each trace on one fleet size and its first window; with\n" +
    "--full every size and window, and at 0.9 once more with limits, and with restarts of a minute.\n" +
    "Traces that do not come with the product are read from the folder of --datasets.",
  options: [
    { kind: "flag", name: "full", what: "play every case, which takes hours" },
    { kind: "choice", name: "policies", choices: POLICY_NAMES, what: "beside ours, only these" },
    { kind: "choice", name: "only", choices: TRACE_NAMES, what: "play only these traces" },
    { kind: "choice", name: "gpus", choices: FLEET_SIZES, what: "on fleets of these sizes" },
    { kind: "choice", name: "loads", choices: LOADS, what: "at these loads" },
    { kind: "choice", name: "windows", choices: WINDOWS, what: "these windows" },
    { kind: "text", name: "datasets", value: "dir", what: "the shared data sets' folder traces" },
    size("jobs", "jobs of a window", { usual: 3_000, least: 100 }),
    size("parallel", "simulations at a time", { usual: 2 }),
  ],
  examples: [
    ["orbweaver bench traces", "the default run, at most 20 minutes on two cores"],
    ["orbweaver bench traces --full", "every case, for hours"],
    ["orbweaver bench traces --only philly --loads 0.9", "one case"],
  ],
  run: async (request) => (await import("./traces/run.ts")).runTraces(request),
};
