/**
 * @file Whole jobs when times arrive late: total time of ours and of the rivals beside the paper's bandit, by lag, length of the job and scenario.
 *
 * Live, a time reaches the tuner with the next report and the answer reaches the ranks with the next file, 10 to 20 iterations after. Every
 * learner has the same lag, the paper's bandit, too. Its 40 exploring iterations are a small part of 2,400, so no learner can be far ahead of it
 * there: the oracle's ratio is the bound.
 */

import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { jobOf, profileOf, SCENARIOS, type Scenario } from "./scenarios.ts";
import { PLAYERS, type PlayerName } from "./rivals.ts";

const LAGS = [0, 10, 20] as const;
const LENGTHS = [240, 2_400] as const;
const PLAYED = [
  "ours",
  "Thompson",
  "UCB1",
  "AUTO",
  "oracle",
] as const satisfies readonly PlayerName[];
const WANTED_MEAN = 0.95;
const WANTED_MOST = 1;

export interface LagPlan {
  readonly seeds: readonly number[];
  /** 0, 10 and 20 when absent. */
  readonly lags?: readonly number[];
  /** Iterations of a job; 240 and 2,400 when absent. */
  readonly lengths?: readonly number[];
  readonly tick: () => void;
}

interface Cell {
  readonly lag: number;
  readonly iterations: number;
  readonly scenario: string;
  /** Total time ÷ that of the paper's bandit, means over seeds. */
  readonly ratios: Readonly<Record<(typeof PLAYED)[number], number>>;
}

export function measureLags(plan: LagPlan): {
  readonly bars: readonly Bar[];
  readonly table: BenchTable;
} {
  const { lags = LAGS, lengths = LENGTHS } = plan;
  const cells = lags.flatMap((lag) =>
    lengths.flatMap((iterations) =>
      SCENARIOS.map((scenario) => cellOf(scenario, { ...plan, lag, iterations })),
    ),
  );
  return { bars: lags.flatMap((lag) => barsOf(lag, cells)), table: tableOf(cells) };
}

function cellOf(
  scenario: Scenario,
  { seeds, tick, lag, iterations }: LagPlan & Pick<Cell, "lag" | "iterations">,
): Cell {
  const { bytes, best, name } = scenario;
  const totals = new Map<PlayerName, number>();
  for (const seed of seeds) {
    tick();
    const luck = { seed, iterations, noiseScale: 1 };
    const draws = jobOf(scenario, luck);
    const profile = profileOf(scenario, luck);
    for (const player of [...PLAYED, "paper's bandit"] as const) {
      const { ms } = PLAYERS[player]({ draws, profile, bytes, best, seed, lag });
      const total = ms.reduce((sum, each) => sum + each, 0);
      totals.set(player, (totals.get(player) ?? 0) + total);
    }
  }
  const ratioOf = (player: PlayerName): number =>
    (totals.get(player) ?? NaN) / (totals.get("paper's bandit") ?? NaN);
  return {
    lag,
    iterations,
    scenario: name,
    ratios: {
      ours: ratioOf("ours"),
      Thompson: ratioOf("Thompson"),
      UCB1: ratioOf("UCB1"),
      AUTO: ratioOf("AUTO"),
      oracle: ratioOf("oracle"),
    },
  };
}

function barsOf(lag: number, cells: readonly Cell[]): readonly Bar[] {
  const own = cells.filter((cell) => cell.lag === lag);
  const ours = own.map(({ ratios }) => ratios.ours);
  const most = Math.max(...ours);
  const bound = mean(own.map(({ ratios }) => ratios.oracle));
  const worst = own.find(({ ratios }) => ratios.ours === most);
  return [
    barOf({
      id: `lag-${String(lag)}-mean`,
      unit: "× bandit's",
      target: atMost(WANTED_MEAN),
      got: mean(ours),
      note: `whole jobs of all lengths, four scenarios; who knew the best arm from the start would have ${bound.toFixed(3)}`,
    }),
    barOf({
      id: `lag-${String(lag)}-most`,
      unit: "× bandit's",
      target: atMost(WANTED_MOST),
      got: most,
      ...(worst && { note: `${worst.scenario}, ${String(worst.iterations)} iterations` }),
    }),
    barOf({
      id: `lag-${String(lag)}-thompson`,
      unit: "× bandit's",
      target: REPORTED,
      got: mean(own.map(({ ratios }) => ratios.Thompson)),
    }),
  ];
}

const tableOf = (cells: readonly Cell[]): BenchTable => ({
  title: "whole jobs beside the paper's bandit, every learner with the same lag, × its time",
  columns: [...PLAYED],
  rows: cells.map(({ lag, iterations, scenario, ratios }) => [
    `lag ${String(lag)}, ${String(iterations)} iterations, ${scenario}`,
    ...PLAYED.map((player) => ratios[player].toFixed(3)),
  ]),
});
