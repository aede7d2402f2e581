/** @file `bench world`: the protocol played from seeds, with faults, and whether any law was broken. */

import { size, type Bench } from "./bench.ts";

export const worldBench: Bench = {
  name: "world",
  summary: "the protocol played from seeds over a model of Temporal, with faults",
  description:
    "Plays the product's state machines over a model of Temporal, of hosts and of the network, in virtual time and from one seed each:\n" +
    "processes crash and pause, messages get lost, hosts restart, users and operators change their minds. A checker of its own judges\n" +
    "after every event. A failing seed is cut to the fewest faults. With --explain the first seed is told whole.",
  options: [
    size("seeds", "seeds, from --seed on", { usual: 100 }),
    { kind: "flag", name: "explain", what: "tell the story of the first seed" },
    {
      kind: "flag",
      name: "coverage",
      what: "measure the branches of machines/ and scheduling/ledger that the seeds go through",
    },
  ],
  examples: [
    ["orbweaver bench world", "a hundred seeds; some seconds"],
    ["orbweaver bench world --seed 7 --seeds 1 --explain", "the story of one seed"],
    ["orbweaver bench world --coverage", "what the worlds do not reach, file by file"],
  ],
  run: async (request) => (await import("./world/run.ts")).runWorlds(request),
};
