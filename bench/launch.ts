/** @file `bench launch`: the processor time and memory of a launch under each supervisor, beside a bare spawn. */

import { size, type Bench } from "./bench.ts";

export const launchBench: Bench = {
  name: "launch",
  summary: "processor time and memory of a launch, native supervisor and shim in Node",
  description:
    "Runs the agent's own activity for launches of `true` in a process of its own, without a server, and counts the processor time of\n" +
    "that process, of the supervisors and of the ranks; beside it, in turns, bare spawns of the same program. Then it holds launches and\n" +
    "adds up the memory of their supervisors (proportional set size). In the best container that the machine has.",
  options: [
    size("launches", "launches of each kind in each round", { usual: 1_000 }),
    size("rounds", "rounds, in turns", { usual: 3 }),
    size("held", "launches that are held for their memory", { usual: 100 }),
  ],
  examples: [
    ["orbweaver bench launch", "three rounds of 1,000 launches; some minutes on two cores"],
    ["orbweaver bench launch --launches 100 --rounds 1 --held 10", "in half a minute"],
  ],
  run: async (request) => (await import("./launch/run.ts")).runLaunch(request),
};
