/** @file `bench swap`: gangs that lose a host on a live fleet, and how soon they run again on the others and a replacement. */

import { size, type Bench } from "./bench.ts";

export const swapBench: Bench = {
  name: "swap",
  summary: "gangs of four hosts that lose one, and how soon they run again beside the other three",
  description:
    "Starts a Temporal server and a fleet of five hosts with an agent each. A gang holds four; the fifth and a queue are full of jobs of one host.\n" +
    "Again and again a host of the gang is killed (its agent and its processes) and fenced; then the fifth is freed, or the killed one comes back.\n" +
    "Counts the swaps after which all four ranks ran within 10 s of that moment, from the checkpoint, on the three hosts that were kept and the new one,\n" +
    "while no other job had a GPU of those three.",
  options: [
    size("swaps", "hosts that are lost", { usual: 50 }),
    {
      kind: "text",
      name: "address",
      value: "HOST:PORT",
      what: "a Temporal server that is there; else one is started",
    },
  ],
  examples: [
    ["orbweaver bench swap", "50 swaps; about ten minutes"],
    ["orbweaver bench swap --swaps 4", "a quick look"],
  ],
  run: async (request) => (await import("./swap/run.ts")).runSwaps(request),
};
