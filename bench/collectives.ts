/** @file `bench collectives`: which NCCL algorithm and protocol, the bandit paper's protocol on an emulator that was frozen before. */

import { size, type Bench } from "./bench.ts";

export const COLLECTIVE_PARTS = ["bandit", "noise", "characterisation", "shift"] as const;
export type CollectivePart = (typeof COLLECTIVE_PARTS)[number];

export const collectivesBench: Bench = {
  name: "collectives",
  summary:
    "NCCL algorithm and protocol: exploring costs, regret and shifts beside the paper's bandit",
  description:
    "Plays training jobs of 240 iterations with overlap on emulated clusters that were calibrated to the paper's\n" +
    "tables. Every tuner meets the same luck of the same seeds: ours, the paper's bandit and offline tuner, UCB1,\n" +
    "Thompson, epsilon-greedy with and without agreement between ranks, AUTO, and the best arm in hindsight.",
  options: [
    { kind: "choice", name: "only", choices: COLLECTIVE_PARTS, what: "measure only these parts" },
    size("seeds", 1_000, 1, "seeds, counted from --seed"),
    size("iterations", 240, 60, "iterations of a job"),
    size("rival-seeds", 200, 1, "of them for the rivals that are not the paper's bandit"),
    size("lag", 0, 0, "iterations until what was measured is decided on"),
    { kind: "text", name: "nccl", value: "file", what: "a log of nccl-tests to calibrate to, too" },
  ],
  draws: true,
  examples: [
    ["orbweaver bench collectives", "everything, about four minutes"],
    ["orbweaver bench collectives --seeds 50 --only bandit", "a quick look"],
    ["orbweaver bench collectives --lag 10", "decisions come ten iterations late"],
    ["orbweaver bench collectives --plot figures", "figures 1 to 5 as SVG"],
  ],
  run: async (request) => (await import("./collectives/run.ts")).runCollectives(request),
};
