/** @file `bench collectives`, part by part. */

import type { Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { CollectivePart } from "../collectives.ts";
import { outcomeFor, regressionBar, scenarioBars, scenarioTable } from "./bars.ts";
import { characterise, logBars, noiseBars } from "./characterisation.ts";
import { drawCollectives } from "./figures.ts";
import { measureLags } from "./lag-part.ts";
import { measureScenario, type Outcome, type Plan } from "./measure.ts";
import { PLAYERS, type PlayerName } from "./rivals.ts";
import { SCENARIOS, type Scenario } from "./scenarios.ts";
import { measureShifts } from "./shift-part.ts";
import { measureSizes } from "./sizes-part.ts";
import { measureWorlds } from "./worlds-part.ts";

const ALL: readonly PlayerName[] = namesOf(PLAYERS);
const NOISE_SCALES = [0.5, 2] as const;
/** The noise's figures and shifts need no more. */
const MOST_NOISE_SEEDS = 200;
/** Three lags and jobs ten times as long. */
const MOST_LAG_SEEDS = 10;
/** Six sizes and jobs of 2,400 iterations. */
const MOST_SIZE_SEEDS = 50;
const LONG_PARTS = ["lag", "worlds", "sizes"] as const;

export function runCollectives(request: BenchRequest): Promise<BenchAnswer> {
  const parts = new Set(request.chosen("only"));
  const isChosen = (part: CollectivePart): boolean => parts.has(part);
  const seeds = Array.from({ length: request.size("seeds") }, (_, at) => request.seed + at);
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const details: Record<string, unknown> = {};
  const byScenario = new Map<Scenario, readonly Outcome[]>();
  if (isChosen("characterisation")) {
    const { bars: own, table } = characterise();
    bars.push(...own);
    tables.push(table);
    const log = request.text("nccl");
    if (log !== undefined) bars.push(...logBars(log));
  }
  if (isChosen("noise")) bars.push(...noiseBars(seeds.slice(0, MOST_NOISE_SEEDS)));
  if (isChosen("bandit")) {
    for (const scenario of SCENARIOS) {
      request.say(`${scenario.name}: ${String(seeds.length)} seeds`);
      const outcomes = measureScenario(
        scenario,
        planOf(request, seeds, { scale: 1, players: ALL }),
      );
      byScenario.set(scenario, outcomes);
      tables.push(scenarioTable(scenario, outcomes));
      bars.push(...scenarioBars(scenario, outcomes));
    }
    bars.push(regressionBar(1, regressionsIn([...byScenario.values()]), jobsOf(seeds)));
    for (const scale of NOISE_SCALES) bars.push(noisier(request, seeds, scale));
    details["outcomes"] = Object.fromEntries(
      [...byScenario].map(([{ name }, outcomes]) => [name, outcomes.map(withoutCurves)]),
    );
  }
  if (isChosen("shift")) {
    request.say("shifts");
    const iterations = request.size("iterations");
    const found = measureShifts({ iterations }, seeds.slice(0, MOST_NOISE_SEEDS));
    bars.push(...found.bars);
    tables.push(...found.tables);
  }
  for (const { bars: own, table } of longJobs(request, seeds, isChosen)) {
    bars.push(...own);
    tables.push(table);
  }
  if (request.plotDir !== undefined) drawCollectives(request.plotDir, byScenario);
  return Promise.resolve({ bars, tables, details });
}

/** The parts whose jobs have thousands of iterations. */
function longJobs(
  request: BenchRequest,
  seeds: readonly number[],
  isChosen: (part: CollectivePart) => boolean,
): readonly { readonly bars: readonly Bar[]; readonly table: BenchTable }[] {
  const tick = (): void => {
    request.interrupted.throwIfAborted();
  };
  const parts = {
    lag: () => measureLags({ seeds: seeds.slice(0, MOST_LAG_SEEDS), tick }),
    worlds: () => measureWorlds({ seed: request.seed, worlds: request.size("worlds"), tick }),
    sizes: () => measureSizes({ seeds: seeds.slice(0, MOST_SIZE_SEEDS), tick }),
  };
  return LONG_PARTS.filter(isChosen).map((part) => {
    request.say(`whole jobs: ${part}`);
    return parts[part]();
  });
}

function planOf(
  request: BenchRequest,
  seeds: readonly number[],
  { scale, players }: { readonly scale: number; readonly players: readonly PlayerName[] },
): Plan {
  return {
    seeds,
    rivalSeeds: request.size("rival-seeds"),
    iterations: request.size("iterations"),
    lag: request.size("lag"),
    noiseScale: scale,
    players,
    tick: () => {
      request.interrupted.throwIfAborted();
    },
  };
}

function noisier(request: BenchRequest, seeds: readonly number[], scale: number): Bar {
  const outcomes = SCENARIOS.map((scenario) => {
    request.say(`${scenario.name}: noise × ${String(scale)}`);
    return measureScenario(scenario, planOf(request, seeds, { scale, players: ["ours"] }));
  });
  return regressionBar(scale, regressionsIn(outcomes), jobsOf(seeds));
}

const jobsOf = (seeds: readonly number[]): number => seeds.length * SCENARIOS.length;

const regressionsIn = (all: readonly (readonly Outcome[])[]): number =>
  all.reduce((sum, outcomes) => sum + (outcomeFor(outcomes, "ours")?.regressions ?? NaN), 0);

const withoutCurves = ({ cumulativeMs: _c, sampleMs: _s, ...rest }: Outcome): object => rest;

function namesOf(players: Readonly<Record<PlayerName, unknown>>): readonly PlayerName[] {
  const isName = (name: string): name is PlayerName => Object.hasOwn(players, name);
  return Object.keys(players).filter(isName);
}
