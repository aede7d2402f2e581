/** @file The decision of a tuner on one row of its policy: explore further, and how, or keep an arm, and why. */

import type { Arm } from "../domain/bandwidth/collective-arm.ts";
import type { ArmRun } from "./policy.ts";

/** One iteration under one arm. */
export interface Sample {
  readonly arm: Arm;
  readonly ms: number;
  /** Whose iteration it is: times of different jobs are compared by their ratios to the same arm only. Absent: all of one. */
  readonly run?: string;
  /** Of the policy in force. Absent where every long stretch of one arm was decided for. */
  readonly version?: number;
}

export type Choice =
  | {
      readonly kind: "explore";
      readonly runs: readonly ArmRun[];
      /** Until what the runs measure has been decided on. */
      readonly meanwhile: Arm;
      readonly why: string;
    }
  | { readonly kind: "exploit"; readonly arm: Arm; readonly why: string };

/** A way to decide: the samples so far, in order, to the next choice. Pure, so every process that has the samples decides alike. */
export type Chooser = (samples: readonly Sample[], arms: readonly Arm[]) => Choice;

/** One iteration each, neighbours of the same arm joined. */
export function inRuns(arms: readonly Arm[]): readonly ArmRun[] {
  const runs: { arm: Arm; count: number }[] = [];
  for (const arm of arms) {
    const last = runs.at(-1);
    if (last?.arm === arm) last.count += 1;
    else runs.push({ arm, count: 1 });
  }
  return runs;
}

export const msOf = (samples: readonly Sample[], arm: Arm): readonly number[] =>
  samples.filter((sample) => sample.arm === arm).map(({ ms }) => ms);
