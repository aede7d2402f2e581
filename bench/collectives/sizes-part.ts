/**
 * @file The cluster of the paper's table 2 at each of its sizes, with overlap: how often a job of 2,400 iterations ends with the right arm.
 *
 * Right is the arm with the lowest true mean, stalls included, or one within 2 % of it. Every learner has a lag of 10 iterations.
 */

import { atLeast, barOf, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { EMULATED_ARMS, type EmulatedArm } from "../../simulator/collectives/emulated-arms.ts";
import { MIB, PAPER_2X4_PROFILED } from "../../simulator/collectives/paper-clusters.ts";
import { ONLINE, PLAYERS, type PlayerName } from "./rivals.ts";
import { jobOf, profileOf } from "./scenarios.ts";

const ITERATIONS = 2_400;
const LAG = 10;
const WITHIN = 1.02;
const WANTED = 95;
/** Of other seeds than any job's. */
const MEAN_SEEDS = 40;

export interface SizesPlan {
  readonly seeds: readonly number[];
  /** Iterations of a job; 2,400 when absent. */
  readonly iterations?: number;
  readonly tick: () => void;
}

interface SizeFound {
  readonly bytes: number;
  readonly best: EmulatedArm;
  /** Shares of the seeds. */
  readonly right: readonly number[];
  /** Whole job over AUTO's, means over seeds. */
  readonly overAuto: readonly number[];
}

export function measureSizes(plan: SizesPlan): {
  readonly bars: readonly Bar[];
  readonly table: BenchTable;
} {
  const sizes = PAPER_2X4_PROFILED.measured
    .filter(({ hasOverlap }) => hasOverlap)
    .map(({ bytes }) => bytes);
  const found = sizes.map((bytes) => sizeFound(bytes, plan));
  const worst = found.reduce((least, each) =>
    (each.right[0] ?? NaN) < (least.right[0] ?? NaN) ? each : least,
  );
  const bar = barOf({
    id: "table-2-right",
    unit: "% of jobs",
    target: atLeast(WANTED),
    got: 100 * mean(found.map(({ right }) => right[0] ?? NaN)),
    note: `all sizes; the worst is ${sizeText(worst.bytes)} with ${percent(worst.right[0])}, and the paper's bandit has ${percent(mean(found.map(({ right }) => right[ONLINE.indexOf("paper's bandit")] ?? NaN)))} over all`,
  });
  const worstBar = barOf({
    id: "table-2-right-worst-size",
    unit: "% of jobs",
    target: atLeast(WANTED),
    got: 100 * (worst.right[0] ?? NaN),
    note: sizeText(worst.bytes),
  });
  const live = found.map(({ right }) => right[ONLINE.indexOf("ours, steps control")] ?? NaN);
  const liveBar = barOf({
    id: "table-2-right-steps-control",
    unit: "% of jobs",
    target: atLeast(WANTED),
    got: 100 * mean(live),
    note: `rewards per collective as live; the worst size has ${percent(Math.min(...live))}`,
  });
  return {
    bars: [bar, worstBar, liveBar],
    table: {
      title: "table 2's cluster: jobs that end within 2 % of the right arm, whole job × AUTO's",
      columns: ["SIZE", "BEST", ...ONLINE.flatMap((name) => [name, "× AUTO"])],
      rows: found.map(({ bytes, best, right, overAuto }) => [
        sizeText(bytes),
        best,
        ...ONLINE.flatMap((_, at) => [percent(right[at]), (overAuto[at] ?? NaN).toFixed(3)]),
      ]),
    },
  };
}

function sizeFound(bytes: number, { seeds, iterations = ITERATIONS, tick }: SizesPlan): SizeFound {
  const scene = { spec: PAPER_2X4_PROFILED, bytes };
  const means = new Map(EMULATED_ARMS.map((arm) => [arm, meanMsOf(arm, bytes)]));
  const meanOf = (arm: EmulatedArm): number => means.get(arm) ?? NaN;
  const best = EMULATED_ARMS.reduce((least, arm) => (meanOf(arm) < meanOf(least) ? arm : least));
  const totals = ONLINE.map(() => ({ right: 0, ms: 0 }));
  let autoMs = 0;
  for (const seed of seeds) {
    tick();
    const luck = { seed, iterations, noiseScale: 1 };
    const draws = jobOf(scene, luck);
    const setting = { draws, profile: profileOf(scene, luck), bytes, best, seed, lag: LAG };
    const totalOf = (name: PlayerName) => PLAYERS[name](setting).ms.reduce((a, b) => a + b, 0);
    autoMs += totalOf("AUTO");
    for (const [at, name] of ONLINE.entries()) {
      const total = totals[at];
      if (total === undefined) continue;
      const played = PLAYERS[name](setting);
      total.ms += played.ms.reduce((a, b) => a + b, 0);
      if (meanOf(played.last) <= WITHIN * meanOf(best)) total.right += 1;
    }
  }
  return {
    bytes,
    best,
    right: totals.map(({ right }) => right / seeds.length),
    overAuto: totals.map(({ ms }) => ms / autoMs),
  };
}

function meanMsOf(arm: EmulatedArm, bytes: number): number {
  const scene = { spec: PAPER_2X4_PROFILED, bytes };
  const means = Array.from({ length: MEAN_SEEDS }, (_, at) => {
    const draws = jobOf(scene, { seed: -1 - at, iterations: ITERATIONS, noiseScale: 1 });
    return mean(Array.from({ length: ITERATIONS }, (__, iteration) => draws.ms(arm, iteration)));
  });
  return mean(means);
}

const percent = (share: number | undefined): string => `${(100 * (share ?? NaN)).toFixed(1)} %`;
const sizeText = (bytes: number): string =>
  bytes < MIB ? `${String(bytes / 1024)} KB` : `${String(bytes / MIB)} MB`;
