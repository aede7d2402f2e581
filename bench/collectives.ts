/** @file `bench collectives`: which NCCL algorithm and protocol, the bandit paper's protocol on an emulator that was frozen before. */

import { size, type Bench } from "./bench.ts";

export const COLLECTIVE_PARTS = [
  "bandit",
  "noise",
  "characterisation",
  "shift",
  "lag",
  "worlds",
  "sizes",
] as const;
export type CollectivePart = (typeof COLLECTIVE_PARTS)[number];

export const collectivesBench: Bench = {
  name: "collectives",
  summary:
    "NCCL algorithm and protocol: exploring costs, regret and shifts beside the paper's bandit",
  description:
    "Plays training jobs of 240 iterations with overlap on emulated clusters that were calibrated to the paper's\n" +
    "tables. Every tuner sees the same random times of the same seeds: ours, the paper's bandit and offline tuner, UCB1,\n" +
    "Thompson, epsilon-greedy with and without agreement between ranks, AUTO, and the best arm in hindsight.",
  options: [
    { kind: "choice", name: "only", choices: COLLECTIVE_PARTS, what: "measure only these parts" },
    size("seeds", "seeds, counted from --seed", { usual: 1_000 }),
    size("iterations", "iterations of a job", { usual: 240, least: 60 }),
    size("rival-seeds", "how many of them the rivals other than the paper's bandit play", {
      usual: 200,
    }),
    size("lag", "iterations until a measurement reaches the tuner, of the part bandit", {
      usual: 0,
      least: 0,
    }),
    size("worlds", "worlds drawn at random, of the part worlds", { usual: 1_000 }),
    { kind: "text", name: "nccl", value: "file", what: "also calibrate to this log of nccl-tests" },
  ],
  draws: true,
  examples: [
    ["orbweaver bench collectives", "everything, about ten minutes"],
    ["orbweaver bench collectives --seeds 50 --only bandit", "a quick look"],
    ["orbweaver bench collectives --lag 10", "decisions come ten iterations late"],
    ["orbweaver bench collectives --only lag", "whole jobs at lags of 0, 10 and 20"],
    ["orbweaver bench collectives --only worlds --worlds 10000", "worlds drawn at random"],
    ["orbweaver bench collectives --plot figures", "figures 1 to 5 as SVG"],
  ],
  run: async (request) => (await import("./collectives/run.ts")).runCollectives(request),
};
