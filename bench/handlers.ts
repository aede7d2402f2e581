/** @file `bench handlers`: what a workflow task with many signals in it costs a fleet, beside a handler that does nothing. */

import { size, type Bench } from "./bench.ts";

export const handlersBench: Bench = {
  name: "handlers",
  summary: "a workflow task with 10,000 signals in it: a fleet's beside an empty handler's",
  description:
    "Activates the product's fleet workflow, and a workflow whose only handler is empty, with the same signals in one task,\n" +
    "in the sandbox in which Temporal's worker runs them, without a server. The empty handler has the SDK's cost alone.\n" +
    "Signals are junk, or requests of small jobs; processor time, the median of some rounds in turn.",
  options: [
    size("signals", "signals in one task", { usual: 10_000 }),
    size("bytes", "bytes of junk in each", { usual: 100 }),
    size("rounds", "rounds", { usual: 3 }),
  ],
  examples: [
    ["orbweaver bench handlers", "10,000 signals"],
    ["orbweaver bench handlers --signals 1000 --rounds 1 --json", "in a few seconds"],
  ],
  run: async (request) => (await import("./handlers/run.ts")).runHandlers(request),
};
