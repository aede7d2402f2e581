/** @file `bench storm`: faults from a seed over a fleet of real processes, and whether anything is wrong afterwards. */

import type { Bench } from "./bench.ts";

export const stormBench: Bench = {
  name: "storm",
  summary: "hundreds of faults over a live fleet, then an inspection for errors",
  description:
    "Starts a Temporal server, workers and agents of its own, submits jobs all the time, and injects faults at\n" +
    "random: kill -9, SIGSTOP, cut connections, a server that stays down, terminated and reset workflows, junk.\n" +
    "Afterwards every job must have ended as it should, and ledger, hosts and an outside witness must agree.",
  options: [
    { kind: "size", name: "faults", usual: 300, least: 1, what: "faults that are injected" },
    { kind: "size", name: "gap-ms", usual: 1_500, least: 1, what: "mean time between two faults" },
    { kind: "text", name: "folder", value: "dir", what: "keep logs, histories and outcome there" },
  ],
  examples: [
    ["orbweaver bench storm", "300 faults; about twenty minutes on two cores"],
    ["orbweaver bench storm --faults 40 --seed 7", "a short one, from another seed"],
  ],
  run: async (request) => {
    const { runStorm, hasFindings } = await import("./storm/storm.ts");
    const { stormBars } = await import("./storm/outcome.ts");
    const folder = request.text("folder");
    const faults = request.size("faults");
    const outcome = await runStorm({
      seed: request.seed,
      faults,
      meanGapMs: request.size("gap-ms"),
      say: request.say,
      interrupted: request.interrupted,
      env: request.env,
      ...(folder !== undefined && { folder }),
    });
    if (hasFindings(outcome))
      request.say(`what was found lies in ${outcome.folder ?? "no folder"}`);
    return { bars: stormBars(outcome, faults), details: { ...outcome } };
  },
};
