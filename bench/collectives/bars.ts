/** @file The bars and tables of the bandit part. */

import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { breakEven, type Outcome } from "./measure.ts";
import type { PlayerName } from "./rivals.ts";
import type { Scenario } from "./scenarios.ts";

export const outcomeFor = (outcomes: readonly Outcome[], player: PlayerName): Outcome | undefined =>
  outcomes.find((outcome) => outcome.player === player);

export function scenarioBars(
  { name, best, paper }: Scenario,
  outcomes: readonly Outcome[],
): readonly Bar[] {
  const ours = outcomeFor(outcomes, "ours");
  const bandit = outcomeFor(outcomes, "paper's bandit");
  const auto = outcomeFor(outcomes, "AUTO");
  const alone = outcomeFor(outcomes, "ε-greedy, each rank alone");
  const gain = (own: Outcome | undefined): number | undefined =>
    own && auto && 100 * (1 - own.exploitMedianMs / auto.exploitMedianMs);
  const id = (what: string): string => `${name}-${what}`;
  const even = ours && auto && breakEven(ours.cumulativeMs, auto.cumulativeMs);
  const bars: Bar[] = [
    barOf({
      id: id("auto"),
      unit: "ms",
      wish: REPORTED,
      got: auto?.exploitMedianMs,
      paper: paper.autoMs,
    }),
    barOf({
      id: id("bandit"),
      unit: "ms",
      wish: REPORTED,
      got: bandit?.exploitMedianMs,
      paper: paper.banditMs,
    }),
    barOf({
      id: id("ours"),
      unit: "ms",
      wish: REPORTED,
      got: ours?.exploitMedianMs,
      paper: paper.banditMs,
    }),
    barOf({
      id: id("gain"),
      unit: "% of AUTO",
      wish: REPORTED,
      got: gain(ours),
      paper: 100 * (1 - paper.banditMs / paper.autoMs),
    }),
    barOf({
      id: id("right-arm"),
      unit: "% of seeds",
      wish: atLeast(99),
      got: ours && 100 * ours.rightShare,
      note: `${best} is the true best; the paper's bandit finds it in ${percentText(bandit?.rightShare)}`,
    }),
    barOf({
      id: id("over-oracle"),
      unit: "% of median",
      wish: atMost(1),
      got: ours && 100 * ours.overOracle.mean,
      note: `worst seed ${ours === undefined ? "-" : (100 * ours.overOracle.worst).toFixed(1)} %`,
    }),
    barOf({
      id: id("total"),
      unit: "× bandit's",
      wish: atMost(1),
      got: ours && bandit && ours.totalMs.mean / bandit.totalMs.mean,
      note: `mean of all iterations, exploring included; worst seeds ${ours && bandit ? (ours.totalMs.worst / bandit.totalMs.worst).toFixed(2) : "-"} ×`,
    }),
    barOf({
      id: id("exploring"),
      unit: "iterations",
      wish: atMost(20),
      got: ours?.exploring.most,
      paper: 40,
    }),
  ];
  if (best === "auto")
    bars.push(
      barOf({
        id: id("exploring-cost"),
        unit: "% of AUTO's time",
        wish: REPORTED,
        got: ours && auto && 100 * (ours.totalMs.mean / auto.totalMs.mean - 1),
        note:
          "nothing can be gained here, so it never breaks even; this is what looking cost, the bandit's: " +
          (bandit && auto
            ? `${(100 * (bandit.totalMs.mean / auto.totalMs.mean - 1)).toFixed(1)} %`
            : "-"),
      }),
    );
  else
    bars.push(
      barOf({
        id: id("break-even"),
        unit: "iterations",
        wish: atMost(70),
        got: even,
        paper: 140,
        note: "mean time since the start is below AUTO's from there on",
      }),
    );
  if (alone !== undefined && name === "2x4-64MB")
    bars.push(
      barOf({
        id: id("no-agreement"),
        unit: "% of AUTO",
        wish: REPORTED,
        got: gain(alone),
        paper: -85.8,
        note: "epsilon-greedy, each rank with random numbers of its own; the emulator's price of disagreement is fitted to this figure",
      }),
    );
  return bars;
}

export const regressionBar = (scale: number, found: number | undefined, jobs: number): Bar =>
  barOf({
    id: `regressions-noise-x${String(scale)}`,
    unit: "jobs",
    wish: exactly(0),
    got: found,
    paper: 0,
    note: `true mean of the last arm above 1.01 × AUTO's, of ${String(jobs)} jobs`,
  });

const percentText = (share: number | undefined): string =>
  share === undefined ? "-" : `${(100 * share).toFixed(1)} %`;

export function scenarioTable({ name }: Scenario, outcomes: readonly Outcome[]): BenchTable {
  const auto = outcomeFor(outcomes, "AUTO")?.totalMs.mean ?? NaN;
  return {
    title: `${name}: time of a whole job (mean, worst seed), exploit median, exploring iterations, right arm`,
    columns: ["TUNER", "TOTAL S", "× AUTO", "WORST S", "EXPLOIT MS", "EXPLORE", "RIGHT"],
    rows: outcomes.map(({ player, totalMs, exploitMedianMs, exploring, rightShare }) => [
      player,
      (totalMs.mean / 1_000).toFixed(2),
      (totalMs.mean / auto).toFixed(3),
      (totalMs.worst / 1_000).toFixed(1),
      exploitMedianMs.toFixed(1),
      exploring.mean.toFixed(1),
      `${(100 * rightShare).toFixed(1)} %`,
    ]),
  };
}
