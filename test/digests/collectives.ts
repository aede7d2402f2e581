/**
 * @file Tuning of collectives: the arm of every iteration in order, its time, and what counts as exploring.
 *
 * An arm is digested by its place among those that are emulated, so that arms may be renamed, and not reordered.
 */

import { type PlayerName, PLAYERS } from "../../bench/collectives/rivals.ts";
import {
  jobOf,
  profileOf,
  SCENARIOS,
  shiftedJob,
  SHIFTS,
  type Scenario,
  type ShiftKind,
} from "../../bench/collectives/scenarios.ts";
import { playChooser, type Played } from "../../bench/collectives/play.ts";
import { eliminationChoice } from "../../tuning/elimination.ts";
import { roundRobinChoice } from "../../tuning/round-robin.ts";
import { EMULATED_ARMS, PAPER_CHOICES } from "../../simulator/collectives/emulated-arms.ts";
import { digestOf, type DigestCase, type Values } from "./digest.ts";

const ITERATIONS = 300;
const LAG = 2;
const QUICK_SEEDS = 2;
const SEEDS = 20;

const PLAYER_NAMES = [
  "ours",
  "paper's bandit",
  "offline tuner",
  "UCB1",
  "Thompson",
  "ε-greedy, agreed",
  "ε-greedy, each rank alone",
  "AUTO",
  "oracle",
] as const satisfies readonly PlayerName[];

export const collectivesCases: readonly DigestCase[] = [
  ...SCENARIOS.flatMap((scenario) => [
    scenarioCase(scenario, QUICK_SEEDS, true),
    scenarioCase(scenario, SEEDS, false),
  ]),
  ...SHIFTS.map(shiftCase),
];

function scenarioCase(scenario: Scenario, seeds: number, isQuick: boolean): DigestCase {
  return {
    name: `${scenario.name}, all tuners, ${String(seeds)} jobs of ${String(ITERATIONS)} iterations each`,
    isQuick,
    run: () =>
      digestOf((values) => {
        const { bytes, best } = scenario;
        for (const name of PLAYER_NAMES)
          for (let seed = 1; seed <= seeds; seed += 1) {
            const luck = { seed, iterations: ITERATIONS, noiseScale: 1 };
            const draws = jobOf(scenario, luck);
            const profile = profileOf(scenario, luck);
            writePlayed(values, PLAYERS[name]({ draws, profile, bytes, best, seed, lag: LAG }));
          }
      }),
  };
}

function shiftCase(kind: ShiftKind): DigestCase {
  return {
    name: `a shift (${kind}), ours and the paper's, ${String(SEEDS)} jobs of ${String(ITERATIONS)} iterations each`,
    isQuick: true,
    run: () =>
      digestOf((values) => {
        for (let seed = 1; seed <= SEEDS; seed += 1) {
          const draws = shiftedJob(kind, { seed, iterations: ITERATIONS, noiseScale: 1 });
          const ours = { chooser: eliminationChoice, arms: EMULATED_ARMS, lag: LAG };
          const papers = { chooser: roundRobinChoice, arms: PAPER_CHOICES, lag: LAG };
          writePlayed(values, playChooser(draws, ours));
          writePlayed(values, playChooser(draws, papers));
        }
      }),
  };
}

function writePlayed(values: Values, played: Played): void {
  values.counts(played.arms.map((arm) => EMULATED_ARMS.indexOf(arm)));
  values.figures(played.ms);
  values.counts([played.exploring, played.exploitFrom, EMULATED_ARMS.indexOf(played.last)]);
}
