/** @file The bars and tables of the bandit part. */

import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { breakEven, type Outcome } from "./measure.ts";
import type { PlayerName } from "./rivals.ts";
import type { Scenario } from "./scenarios.ts";

export const outcomeFor = (outcomes: readonly Outcome[], player: PlayerName): Outcome | undefined =>
  outcomes.find((outcome) => outcome.player === player);

/** What the players of a scenario did, by the name under which the bars speak of them. */
interface Played {
  readonly ours: Outcome | undefined;
  readonly bandit: Outcome | undefined;
  readonly auto: Outcome | undefined;
  readonly alone: Outcome | undefined;
}

export function scenarioBars(scenario: Scenario, outcomes: readonly Outcome[]): readonly Bar[] {
  const played: Played = {
    ours: outcomeFor(outcomes, "ours"),
    bandit: outcomeFor(outcomes, "paper's bandit"),
    auto: outcomeFor(outcomes, "AUTO"),
    alone: outcomeFor(outcomes, "ε-greedy, each rank alone"),
  };
  return [
    ...timeBars(scenario, played),
    ...qualityBars(scenario, played),
    scenario.best === "auto" ? exploringCostBar(scenario, played) : breakEvenBar(scenario, played),
    ...agreementBars(scenario, played),
  ];
}

/** By how many percent the median is below AUTO's. */
const gainOver = (auto: Outcome | undefined, own: Outcome | undefined): number | undefined =>
  own && auto && 100 * (1 - own.exploitMedianMs / auto.exploitMedianMs);

function timeBars({ name, paper }: Scenario, { ours, bandit, auto }: Played): readonly Bar[] {
  return [
    barOf({
      id: `${name}-auto`,
      unit: "ms",
      target: REPORTED,
      got: auto?.exploitMedianMs,
      paper: paper.autoMs,
    }),
    barOf({
      id: `${name}-bandit`,
      unit: "ms",
      target: REPORTED,
      got: bandit?.exploitMedianMs,
      paper: paper.banditMs,
    }),
    barOf({
      id: `${name}-ours`,
      unit: "ms",
      target: REPORTED,
      got: ours?.exploitMedianMs,
      paper: paper.banditMs,
    }),
    barOf({
      id: `${name}-gain`,
      unit: "% of AUTO",
      target: REPORTED,
      got: gainOver(auto, ours),
      paper: 100 * (1 - paper.banditMs / paper.autoMs),
    }),
  ];
}

function qualityBars({ name, best }: Scenario, { ours, bandit }: Played): readonly Bar[] {
  const worstTotal = ours && bandit ? (ours.totalMs.worst / bandit.totalMs.worst).toFixed(2) : "-";
  return [
    barOf({
      id: `${name}-right-arm`,
      unit: "% of seeds",
      target: atLeast(99),
      got: ours && 100 * ours.rightShare,
      note: `${best} has the lowest median; an arm with a lower mean is right, too. The paper's bandit is right in ${percentText(bandit?.rightShare)}`,
    }),
    barOf({
      id: `${name}-over-oracle`,
      unit: "% of median",
      target: atMost(1),
      got: ours && 100 * ours.overOracle.mean,
      note: `worst seed ${ours === undefined ? "-" : (100 * ours.overOracle.worst).toFixed(1)} %`,
    }),
    barOf({
      id: `${name}-total`,
      unit: "× bandit's",
      target: atMost(1),
      got: ours && bandit && ours.totalMs.mean / bandit.totalMs.mean,
      note: `mean of all iterations, exploring included; worst seeds ${worstTotal} ×`,
    }),
    barOf({
      id: `${name}-exploring`,
      unit: "iterations",
      target: REPORTED,
      got: ours?.exploring.mean,
      paper: 40,
      note: `mean; at most ${String(ours?.exploring.most ?? "-")}. What exploring costs is in the whole job`,
    }),
  ];
}

function exploringCostBar({ name }: Scenario, { ours, bandit, auto }: Played): Bar {
  const excessOf = (own: Outcome, over: Outcome): number =>
    100 * (own.totalMs.mean / over.totalMs.mean - 1);
  const bandits = bandit && auto ? `${excessOf(bandit, auto).toFixed(1)} %` : "-";
  return barOf({
    id: `${name}-exploring-cost`,
    unit: "% of AUTO's time",
    target: REPORTED,
    got: ours && auto && excessOf(ours, auto),
    note: `AUTO is the best here, so exploring never pays back; the bandit's exploring cost ${bandits}`,
  });
}

const breakEvenBar = ({ name }: Scenario, { ours, auto }: Played): Bar =>
  barOf({
    id: `${name}-break-even`,
    unit: "iterations",
    target: atMost(70),
    got: ours && auto && breakEven(ours.cumulativeMs, auto.cumulativeMs),
    paper: 140,
    note: "from this iteration on the mean time since the start is below AUTO's",
  });

function agreementBars({ name }: Scenario, { alone, auto }: Played): readonly Bar[] {
  if (alone === undefined || name !== "2x4-64MB") return [];
  return [
    barOf({
      id: `${name}-no-agreement`,
      unit: "% of AUTO",
      target: REPORTED,
      got: gainOver(auto, alone),
      paper: -85.8,
      note: "epsilon-greedy, each rank with random numbers of its own; the emulator's price of disagreement is fitted to this figure",
    }),
  ];
}

export const regressionBar = (scale: number, found: number | undefined, jobs: number): Bar =>
  barOf({
    id: `regressions-noise-x${String(scale)}`,
    unit: "jobs",
    target: exactly(0),
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
