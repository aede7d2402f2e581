/**
 * @file Whole jobs when times arrive late: total time of ours and of the rivals beside the paper's bandit, by lag, length of the job and scenario.
 *
 * Live, a time reaches the tuner with the next report and the answer reaches the ranks with the next file, 10 to 20 iterations after. Every
 * learner has the same lag, the paper's bandit, too. Its 40 exploring iterations are a small part of 2,400, so no learner can be far ahead of it
 * there. Four bounds stand beside each bar: the best arm in hindsight from the first iteration on; the same arm from the first time that arrives on, and AUTO
 * before; and the same arm after each of the paper's four was tried once and these times have arrived, until when the job is on AUTO. The fourth is a
 * learner that holds the right prior over the four scenarios: tree/simple, the best in three of them, until the first time tells the scenario.
 */

import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { EMULATED_ARMS, type EmulatedArm } from "../../simulator/collectives/emulated-arms.ts";
import { jobOf, profileOf, SCENARIOS, type Scenario } from "./scenarios.ts";
import { PLAYERS, type PlayerName } from "./rivals.ts";

const LAGS = [0, 10, 20] as const;
const LENGTHS = [240, 2_400] as const;
const PLAYED = [
  "ours",
  "ours, steps control",
  "Thompson",
  "UCB1",
  "AUTO",
  "oracle",
  "told by a first time",
  "told after a round",
  "told names",
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
  const { bytes, name } = scenario;
  const best = bestInHindsight(scenario, { seeds, iterations });
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
      "ours, steps control": ratioOf("ours, steps control"),
      Thompson: ratioOf("Thompson"),
      UCB1: ratioOf("UCB1"),
      AUTO: ratioOf("AUTO"),
      oracle: ratioOf("oracle"),
      "told by a first time": ratioOf("told by a first time"),
      "told after a round": ratioOf("told after a round"),
      "told names": ratioOf("told names"),
    },
  };
}

/** By total time over all seeds: stalls count, which medians do not see. */
function bestInHindsight(
  scenario: Scenario,
  { seeds, iterations }: { readonly seeds: readonly number[]; readonly iterations: number },
): EmulatedArm {
  const totals = EMULATED_ARMS.map(() => 0);
  for (const seed of seeds) {
    const draws = jobOf(scenario, { seed, iterations, noiseScale: 1 });
    for (const [at, arm] of EMULATED_ARMS.entries())
      for (let iteration = 0; iteration < iterations; iteration += 1)
        totals[at] = (totals[at] ?? 0) + draws.ms(arm, iteration);
  }
  return EMULATED_ARMS[totals.indexOf(Math.min(...totals))] ?? scenario.best;
}

function barsOf(lag: number, cells: readonly Cell[]): readonly Bar[] {
  const own = cells.filter((cell) => cell.lag === lag);
  const ours = own.map(({ ratios }) => ratios.ours);
  const most = Math.max(...ours);
  const bound = (player: (typeof PLAYED)[number]): string =>
    mean(own.map(({ ratios }) => ratios[player])).toFixed(3);
  const worst = own.find(({ ratios }) => ratios.ours === most);
  return [
    barOf({
      id: `lag-${String(lag)}-mean`,
      unit: "× bandit's",
      target: atMost(WANTED_MEAN),
      got: mean(ours),
      note: `whole jobs of all lengths, four scenarios; bounds: the best arm from the start ${bound("oracle")}, told by a first time ${bound("told by a first time")}, told after one round of arms ${bound("told after a round")}, the right prior over these scenarios and names ${bound("told names")}`,
    }),
    barOf({
      id: `lag-${String(lag)}-most`,
      unit: "× bandit's",
      target: atMost(WANTED_MOST),
      got: most,
      ...(worst && { note: `${worst.scenario}, ${String(worst.iterations)} iterations` }),
    }),
    barOf({
      id: `lag-${String(lag)}-steps-control`,
      unit: "× bandit's",
      target: atMost(WANTED_MEAN),
      got: mean(own.map(({ ratios }) => ratios["ours, steps control"])),
      note: `rewards per collective as live; the most ${Math.max(...own.map(({ ratios }) => ratios["ours, steps control"])).toFixed(3)}`,
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
