/** @file `bench live-cycle`: the whole scheduling cycle of a large fleet, as the fleet's worker runs it. What it measures stands in docs/benchmarks.md. */

import { size, type Bench } from "./bench.ts";

const LIVE_CYCLE_PARTS = ["cycle", "fresh", "most"] as const;
export type LiveCyclePart = (typeof LIVE_CYCLE_PARTS)[number];

export const liveCycleBench: Bench = {
  name: "live-cycle",
  summary: "the whole scheduling cycle of a large fleet, beside one that sends its ledger",
  description:
    "Drives the fleet's machine, the payloads of its local activities, and the decider's two threads, as the\n" +
    "fleet's worker does: signals are folded, the decider is fed and decides, the plan is applied, grants and\n" +
    "notices are posted, and the summary is made. Beside it, in turns on the same ledger, the way of version 1,\n" +
    "which hands the whole ledger to the decider.",
  options: [
    { kind: "choice", name: "only", choices: LIVE_CYCLE_PARTS, what: "measure only these parts" },
    size("gpus", "GPUs of the fleet", { usual: 6_000, least: 8 }),
    size("requests", "requests that wait", { usual: 10_000 }),
    size("most", "requests that wait in the fleet that is as full as it may be", { usual: 15_000 }),
    size("cycles", "cycles that are measured", { usual: 200 }),
    size("changes", "ends and requests a cycle", { usual: 5 }),
    size("ledgers", "fresh ledgers on which one decision is measured", { usual: 20 }),
  ],
  examples: [
    ["orbweaver bench live-cycle", "everything; some minutes on two cores"],
    ["orbweaver bench live-cycle --only cycle --json", "the live cycles alone, for a machine"],
  ],
  run: async (request) => (await import("./live-cycle/run.ts")).runLiveCycle(request),
};
