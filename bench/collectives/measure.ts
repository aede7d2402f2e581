/**
 * @file Plays a scenario under every tuner over the seeds and sums up: times, exploring, the arm in the end, regret, regressions.
 *
 * A regression is a job whose last arm has a true mean (many draws, not this job's) above 1.01 of AUTO's. The exploit phase is compared with the
 * oracle over the very same iterations of the same luck.
 */

import { mean, quantile } from "../statistics.ts";
import type { EmulatedArm } from "../../simulator/collectives/emulated-arms.ts";
import type { Played } from "./play.ts";
import { PLAYERS, type Player, type PlayerName } from "./rivals.ts";
import { jobOf, profileOf, type Scenario } from "./scenarios.ts";

export interface Plan {
  readonly seeds: readonly number[];
  /** For the slower-moving rivals. */
  readonly rivalSeeds: number;
  readonly iterations: number;
  readonly lag: number;
  readonly noiseScale: number;
  readonly players: readonly PlayerName[];
  readonly tick: () => void;
}

export interface Outcome {
  readonly player: PlayerName;
  readonly seeds: number;
  readonly totalMs: { readonly mean: number; readonly worst: number };
  /** Of the exploit phase, the middle one of the seeds. */
  readonly exploitMedianMs: number;
  /** Exploit median over the oracle's on the same iterations, less 1. */
  readonly overOracle: { readonly mean: number; readonly worst: number };
  readonly rightShare: number;
  readonly exploring: { readonly mean: number; readonly most: number };
  readonly regressions: number;
  /** Mean time from the start to the end of each iteration. */
  readonly cumulativeMs: readonly number[];
  /** The exploit phase of the first seed: what figure 5 shows. */
  readonly sampleMs: readonly number[];
}

const REGRESSION = 1.01;
/** More would not be seen beside 1.01; a quick look needs fewer. */
const MOST_TRUE_MEAN_SEEDS = 200;

export function measureScenario(scenario: Scenario, plan: Plan): readonly Outcome[] {
  const trueMean = trueMeans(scenario, plan);
  return plan.players.map((player) => {
    const isMain = player === "ours" || player === "paper's bandit" || player === "AUTO";
    const seeds = isMain ? plan.seeds : plan.seeds.slice(0, plan.rivalSeeds);
    const sum = emptySum(plan.iterations);
    for (const seed of seeds) {
      plan.tick();
      addJob(sum, { scenario, plan, seed, play: PLAYERS[player], trueMean });
    }
    return outcomeOf(player, sum);
  });
}

interface Sum {
  readonly totals: number[];
  readonly medians: number[];
  readonly over: number[];
  readonly exploring: number[];
  readonly cumulative: Float64Array;
  right: number;
  regressions: number;
  sampleMs: readonly number[];
}

const emptySum = (iterations: number): Sum => ({
  totals: [],
  medians: [],
  over: [],
  exploring: [],
  cumulative: new Float64Array(iterations),
  right: 0,
  regressions: 0,
  sampleMs: [],
});

interface OneJob {
  readonly scenario: Scenario;
  readonly plan: Plan;
  readonly seed: number;
  readonly play: Player;
  readonly trueMean: (arm: EmulatedArm) => number;
}

function addJob(sum: Sum, { scenario, plan, seed, play, trueMean }: OneJob): void {
  const luck = { seed, iterations: plan.iterations, noiseScale: plan.noiseScale };
  const draws = jobOf(scenario, luck);
  const { bytes, best } = scenario;
  const profile = profileOf(scenario, luck);
  const played = play({ draws, profile, bytes, best, seed, lag: plan.lag });
  // A job that explores to its end, where two arms are level, is judged by its last quarter.
  const from = Math.min(played.exploitFrom, Math.floor(0.75 * plan.iterations));
  const exploit = played.ms.slice(from);
  const ideal = exploit.map((_, at) => draws.ms(best, from + at));
  sum.totals.push(played.ms.reduce((total, ms) => total + ms, 0));
  sum.medians.push(quantile(exploit, 0.5));
  sum.over.push(quantile(exploit, 0.5) / quantile(ideal, 0.5) - 1);
  sum.exploring.push(played.exploring);
  addCumulative(sum.cumulative, played);
  // An arm with fewer stalls may have a lower mean than that with the lowest median.
  if (trueMean(played.last) <= trueMean(best)) sum.right += 1;
  if (trueMean(played.last) > REGRESSION * trueMean("auto")) sum.regressions += 1;
  if (sum.sampleMs.length === 0) sum.sampleMs = exploit;
}

function addCumulative(cumulative: Float64Array, { ms }: Played): void {
  let total = 0;
  for (const [at, value] of ms.entries()) {
    total += value;
    cumulative[at] = (cumulative[at] ?? 0) + total;
  }
}

function outcomeOf(player: PlayerName, sum: Sum): Outcome {
  const seeds = sum.totals.length;
  return {
    player,
    seeds,
    totalMs: { mean: mean(sum.totals), worst: Math.max(...sum.totals) },
    exploitMedianMs: quantile(sum.medians, 0.5),
    overOracle: { mean: mean(sum.over), worst: Math.max(...sum.over) },
    rightShare: sum.right / seeds,
    exploring: { mean: mean(sum.exploring), most: Math.max(...sum.exploring) },
    regressions: sum.regressions,
    cumulativeMs: Array.from(sum.cumulative, (total) => total / seeds),
    sampleMs: sum.sampleMs,
  };
}

function trueMeans(scenario: Scenario, plan: Plan): (arm: EmulatedArm) => number {
  const known = new Map<EmulatedArm, number>();
  return (arm) => {
    const before = known.get(arm);
    if (before !== undefined) return before;
    let sum = 0;
    const seeds = Math.min(MOST_TRUE_MEAN_SEEDS, 4 * plan.seeds.length);
    for (let seed = 0; seed < seeds; seed += 1) {
      const luck = { seed: -1 - seed, iterations: plan.iterations, noiseScale: plan.noiseScale };
      const draws = jobOf(scenario, luck);
      for (let at = 0; at < plan.iterations; at += 1) sum += draws.ms(arm, at);
    }
    const found = sum / (seeds * plan.iterations);
    known.set(arm, found);
    return found;
  };
}

/** The first iteration from which on the job is ahead of AUTO for good, counted from 1; undefined when it never is. */
export function breakEven(own: readonly number[], auto: readonly number[]): number | undefined {
  let from: number | undefined;
  for (let at = own.length - 1; at >= 0; at -= 1) {
    if ((own[at] ?? NaN) > (auto[at] ?? NaN)) break;
    from = at + 1;
  }
  return from;
}
