/**
 * @file Drawn worlds: how much of what the best arm saves each learner saves, and how many jobs are left on an arm that is worse than AUTO.
 *
 * Every learner has the same arms and the same lag. Saved: (AUTO − learner) / (AUTO − oracle), whole jobs, summed over all worlds; the oracle knows each
 * world's best arm from the start. Two bounds stand beside the bar: no learner is told the best arm before the first time arrives, and on average over worlds
 * AUTO is the best guess until then; and one that tries each arm once is told at best when these times have arrived. A regression is a job whose kept arm has a true mean above 1.01 of AUTO's; of UCB1 and Thompson, which keep none,
 * it is the arm with the lowest mean at the end.
 */

import { atLeast, atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { EMULATED_ARMS } from "../../simulator/collectives/emulated-arms.ts";
import { playFixed, type Played } from "./play.ts";
import { ONLINE, PLAYERS, type PlayerName } from "./rivals.ts";
import { FAMILIES, worldOf, type Family, type World } from "./worlds.ts";

const LENGTHS = [240, 2_400] as const;
const LAG = 10;
const BOUNDS = [
  "told by a first time",
  "told after a round",
] as const satisfies readonly PlayerName[];
type LearnerName = (typeof ONLINE)[number] | (typeof BOUNDS)[number];
const ALL: readonly LearnerName[] = [...ONLINE, ...BOUNDS];
const REGRESSION = 1.01;
const WANTED_SAVED = 55;
/** Of 10,000 worlds. */
const WANTED_REGRESSIONS = 0.001;

export interface WorldsPlan {
  readonly seed: number;
  readonly worlds: number;
  /** Iterations of a job; 240 and 2,400 when absent. */
  readonly lengths?: readonly number[];
  readonly learners?: readonly LearnerName[];
  readonly families?: readonly Family[];
  readonly tick: () => void;
}

interface Sum {
  autoMs: number;
  oracleMs: number;
  readonly ms: Map<LearnerName, number>;
  readonly regressions: Map<LearnerName, number>;
  worlds: number;
}

export function measureWorlds(plan: WorldsPlan): {
  readonly bars: readonly Bar[];
  readonly table: BenchTable;
} {
  const { lengths = LENGTHS, families = FAMILIES, learners = ALL } = plan;
  const found = lengths.map((iterations) => ({ iterations, sums: sumsOf(plan, iterations) }));
  const of = (sums: ReadonlyMap<Family, Sum>, family: Family): Sum =>
    sums.get(family) ?? emptySum();
  return {
    bars: found.flatMap(({ iterations, sums }) =>
      barsOf(iterations, total(families.map((family) => of(sums, family)))),
    ),
    table: {
      title: `worlds drawn at random, lag ${String(LAG)}: % of what the best arm saves, regressions`,
      columns: ["worlds", ...learners.flatMap((name) => [name, "REGR."])],
      rows: found.flatMap(({ iterations, sums }) =>
        families.map((family) => {
          const sum = of(sums, family);
          const cells = learners.flatMap((name) => [
            savedPercent(sum, name).toFixed(1),
            String(sum.regressions.get(name) ?? 0),
          ]);
          return [`${family}, ${String(iterations)} iterations`, String(sum.worlds), ...cells];
        }),
      ),
    },
  };
}

const emptySum = (): Sum => ({
  autoMs: 0,
  oracleMs: 0,
  ms: new Map(),
  regressions: new Map(),
  worlds: 0,
});

function sumsOf(plan: WorldsPlan, iterations: number): ReadonlyMap<Family, Sum> {
  const { seed, worlds, learners = ALL, families = FAMILIES, tick } = plan;
  const sums = new Map<Family, Sum>(families.map((family) => [family, emptySum()]));
  for (let index = 0; index < worlds; index += 1) {
    tick();
    const world = worldOf(seed, index, iterations);
    const sum = sums.get(world.family);
    if (sum === undefined) continue;
    sum.worlds += 1;
    sum.autoMs += totalMs(playFixed(world.draws, "auto"));
    sum.oracleMs += totalMs(playFixed(world.draws, world.best));
    for (const name of learners) addJob(sum, { world, name, seed: seed + index });
  }
  return sums;
}

function addJob(
  sum: Sum,
  {
    world,
    name,
    seed,
  }: { readonly world: World; readonly name: LearnerName; readonly seed: number },
): void {
  const { draws, best, meanMs } = world;
  // What an offline tuner would profile; nobody here does.
  const profile = draws;
  const played = PLAYERS[name]({
    draws,
    profile,
    bytes: 0,
    best,
    seed,
    lag: LAG,
    arms: EMULATED_ARMS,
  });
  sum.ms.set(name, (sum.ms.get(name) ?? 0) + totalMs(played));
  if (meanMs(played.last) > REGRESSION * meanMs("auto"))
    sum.regressions.set(name, (sum.regressions.get(name) ?? 0) + 1);
}

const totalMs = ({ ms }: Played): number => ms.reduce((sum, each) => sum + each, 0);

const savedPercent = ({ autoMs, oracleMs, ms }: Sum, name: LearnerName): number =>
  (100 * (autoMs - (ms.get(name) ?? NaN))) / (autoMs - oracleMs);

function total(sums: readonly Sum[]): Sum {
  const all = emptySum();
  for (const { autoMs, oracleMs, ms, regressions, worlds } of sums) {
    all.autoMs += autoMs;
    all.oracleMs += oracleMs;
    all.worlds += worlds;
    for (const [name, each] of ms) all.ms.set(name, (all.ms.get(name) ?? 0) + each);
    for (const [name, each] of regressions)
      all.regressions.set(name, (all.regressions.get(name) ?? 0) + each);
  }
  return all;
}

function barsOf(iterations: number, sum: Sum): readonly Bar[] {
  const id = `worlds-${String(iterations)}`;
  const thompson = savedPercent(sum, "Thompson");
  return [
    barOf({
      id: `${id}-saved`,
      unit: "% of the oracle's",
      target: atLeast(WANTED_SAVED),
      got: savedPercent(sum, "ours"),
      note: `${String(sum.worlds)} worlds, lag ${String(LAG)}, whole jobs; bounds: ${BOUNDS.map((name) => `${name} ${savedPercent(sum, name).toFixed(1)} %`).join(", ")}`,
    }),
    barOf({
      id: `${id}-ahead-of-thompson`,
      unit: "points",
      target: atLeast(0),
      got: savedPercent(sum, "ours") - thompson,
      note: `Thompson saves ${thompson.toFixed(1)} %`,
    }),
    barOf({
      id: `${id}-regressions`,
      unit: "jobs",
      target: atMost(Math.ceil(WANTED_REGRESSIONS * sum.worlds)),
      got: sum.regressions.get("ours") ?? 0,
      note: `true mean of the kept arm above 1.01 × AUTO's; Thompson ${String(sum.regressions.get("Thompson") ?? 0)}`,
    }),
    barOf({
      id: `${id}-steps-control-saved`,
      unit: "% of the oracle's",
      target: atLeast(WANTED_SAVED),
      got: savedPercent(sum, "ours, steps control"),
      note: "rewards per collective as live",
    }),
    barOf({
      id: `${id}-steps-control-regressions`,
      unit: "jobs",
      target: atMost(Math.ceil(WANTED_REGRESSIONS * sum.worlds)),
      got: sum.regressions.get("ours, steps control") ?? 0,
      note: "rewards per collective as live",
    }),
    barOf({
      id: `${id}-bandit`,
      unit: "% of the oracle's",
      target: REPORTED,
      got: savedPercent(sum, "paper's bandit"),
    }),
  ];
}
