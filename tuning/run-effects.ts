/**
 * @file Makes times of different jobs comparable: the logarithm of each sample less the effect of its job, by median polish.
 *
 * A job's iteration contains its own computation, so its milliseconds cannot be compared with another job's; the ratios of arms within a job
 * can. Model: log ms = job + arm + noise, with medians instead of means, because stalls are heavy. The largest job's effect is zero, so a
 * single job stays as it is. Source: Tukey's median polish. Cost: `ROUNDS` passes.
 */

import type { Arm } from "../domain/bandwidth/collective-arm.ts";
import type { Sample } from "./choice.ts";
import { medianOf } from "./trimming.ts";

const ROUNDS = 4;

export interface Level {
  readonly arm: Arm;
  readonly logMs: number;
}

export function comparable(samples: readonly Sample[]): readonly Level[] {
  const levels = samples.map(({ arm, ms, run = "" }) => ({ arm, run, logMs: Math.log(ms) }));
  const runs = [...new Set(levels.map(({ run }) => run))];
  if (runs.length < 2) return levels;
  const arms = [...new Set(levels.map(({ arm }) => arm))];
  const ofRun = new Map(runs.map((run) => [run, 0]));
  const ofArm = new Map<Arm, number>();
  const size = (run: string): number => levels.filter((level) => level.run === run).length;
  const largest = runs.reduce((most, run) => (size(run) > size(most) ? run : most));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const arm of arms) {
      const own = levels.filter((level) => level.arm === arm);
      ofArm.set(arm, medianOf(own.map(({ logMs, run }) => logMs - (ofRun.get(run) ?? 0))));
    }
    for (const run of runs) {
      const own = levels.filter((level) => level.run === run);
      ofRun.set(run, medianOf(own.map(({ logMs, arm }) => logMs - (ofArm.get(arm) ?? 0))));
    }
  }
  const zero = ofRun.get(largest) ?? 0;
  return levels.map(({ arm, run, logMs }) => ({
    arm,
    logMs: logMs - (ofRun.get(run) ?? 0) + zero,
  }));
}
