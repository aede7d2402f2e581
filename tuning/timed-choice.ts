/**
 * @file The choice of a row whose collectives were timed by themselves: they decide, and the times of whole steps control what they decided.
 *
 * A step's time hides what its collectives gain: of a step with 15 % communication an arm that is 8 % faster saves 1.2 %, which is less than its
 * noise. So where most samples say what the row's collectives took on the slowest rank, those times are judged. But a faster collective may take
 * from the computation beside it. So an arm that they decided for is tried beside AUTO until steps of both are known well enough to be compared, or
 * a slowdown is excluded that would just be seen then: steps that are much faster need no AUTO for that; one under which they are surely slower is left out, and the others are judged again.
 * Where most samples do not say it, steps are judged, as they always were. Cost: one choice for each arm that is left out, and one more.
 */

import type { Arm } from "../domain/bandwidth/collective-arm.ts";
import { inRuns, type Choice, type Sample } from "./choice.ts";
import { contrastsOf } from "./contrasts.ts";
import { ELIMINATION, eliminationChoice, type Published } from "./elimination.ts";
import { comparable } from "./run-effects.ts";
import { sinceShift } from "./shift.ts";

export const CONTROL = Object.freeze({
  /** By how many standard errors steps must be slower than under AUTO for an arm to be left out. */
  sigmas: 2,
  /** Standard error of the difference in log time at which steps of two arms are compared: what slows them by 5 % is seen. */
  error: 0.02,
  /** Pairs of an arm and AUTO in one schedule. */
  pairs: 6,
});

/** A step under one arm. */
export interface StepSample extends Sample {
  /** What the row's collectives took in it; absent when unknown. */
  readonly collectiveMs?: number;
}

export interface TimedChoice {
  readonly choice: Choice;
  /** How many of the first samples are from before the last shift. */
  readonly stale: number;
}

export function timedChoice(
  samples: readonly StepSample[],
  arms: readonly Arm[],
  published?: Published,
): TimedChoice {
  const timed = samples.flatMap((sample, at) =>
    sample.collectiveMs === undefined ? [] : [{ ...sample, ms: sample.collectiveMs, at }],
  );
  if (2 * timed.length <= samples.length) {
    const stale = samples.length - sinceShift(samples).length;
    return { choice: eliminationChoice(samples, arms, published), stale };
  }
  const before = timed.length - sinceShift(timed).length;
  const stale = before === 0 ? 0 : (timed[before]?.at ?? 0);
  const choice = controlled(timed, samples.slice(stale), { arms, published });
  return { choice: { ...choice, why: `${choice.why}, by the time of collectives` }, stale };
}

function controlled(
  timed: readonly Sample[],
  steps: readonly Sample[],
  { arms, published }: { readonly arms: readonly Arm[]; readonly published: Published | undefined },
): Choice {
  const choice = eliminationChoice(timed, arms, published);
  if (choice.kind === "explore" || choice.arm === "auto") return choice;
  const { arm } = choice;
  const { level, error } = contrastsOf(comparable(steps));
  const slower = level(arm) - level("auto");
  const doubt = CONTROL.sigmas * error(arm, "auto");
  if (slower > doubt) {
    const others = controlled(
      timed.filter((sample) => sample.arm !== arm),
      steps,
      { arms: arms.filter((each) => each !== arm), published },
    );
    return { ...others, why: `${others.why}; ${arm} makes steps slower` };
  }
  const isKnown = Math.min(doubt, slower + doubt) <= CONTROL.sigmas * CONTROL.error;
  if (isKnown || steps.length >= ELIMINATION.mostSamples) return choice;
  const pairs = Array.from({ length: CONTROL.pairs }, (_, at): readonly Arm[] =>
    at % 2 === 0 ? [arm, "auto"] : ["auto", arm],
  );
  return {
    kind: "explore",
    runs: inRuns(pairs.flat()),
    meanwhile: slower > 0 ? "auto" : arm,
    why: `${arm} is the fastest; its steps are compared with those of NCCL's own choice`,
  };
}
