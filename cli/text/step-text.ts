/** @file The training step of a job's last run: what its plan predicted, what its processes measured, and how far the prediction was off. */

import type { JobView, RunProgress } from "../../client/index.ts";

export interface StepFacts {
  readonly predictedMs?: number;
  /** The typical step: of the run so far, or of the whole run once it has ended. */
  readonly measuredMs?: number;
  /** (predicted − measured) ÷ measured: below 0 the step takes longer than was predicted. */
  readonly error?: number;
}

/** Undefined where nothing predicted the step and nothing measured it. */
export function stepOf(
  { attempts }: Pick<JobView, "attempts">,
  live: readonly Pick<RunProgress, "stepMs">[],
): StepFacts | undefined {
  const last = attempts.at(-1);
  const [predictedMs] = (last?.launchExtras ?? []).flatMap(({ planned }) => planned?.stepMs ?? []);
  const measuredMs = last?.stepMs ?? live.flatMap(({ stepMs }) => stepMs ?? []).at(0);
  if (predictedMs === undefined && measuredMs === undefined) return undefined;
  return {
    ...(predictedMs !== undefined && { predictedMs }),
    ...(measuredMs !== undefined && { measuredMs }),
    ...(predictedMs !== undefined &&
      measuredMs !== undefined && { error: (predictedMs - measuredMs) / measuredMs }),
  };
}

export function stepText(facts: StepFacts | undefined): string | undefined {
  if (facts === undefined) return undefined;
  const { predictedMs, measuredMs, error } = facts;
  const off = error === undefined ? undefined : Math.round(100 * error);
  return [
    ...(predictedMs === undefined ? [] : [`${msText(predictedMs)} predicted`]),
    ...(measuredMs === undefined ? [] : [`${msText(measuredMs)} measured`]),
    ...(off === undefined ? [] : [errorText(off)]),
  ].join(", ");
}

const errorText = (percent: number): string =>
  percent === 0
    ? "as predicted"
    : `the prediction is ${String(Math.abs(percent))} % too ${percent < 0 ? "short" : "long"}`;

const msText = (ms: number): string => `${ms >= 100 ? ms.toFixed(0) : ms.toPrecision(3)} ms`;
