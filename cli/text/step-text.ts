/**
 * @file The training step of a job's last run: what its plan predicted, what its processes measured, how far the prediction was off, and when the job's last step ends.
 *
 * The end is that of the steps that its file names, at the pace that was measured, or predicted until then. Former runs count with the steps that they had time for; what they
 * did after their last checkpoint is done again, so it may be later.
 */

import type { JobView, RunProgress } from "../../client/index.ts";
import { counted, durationText, timeText } from "../terminal/duration.ts";

export interface StepFacts {
  readonly predictedMs?: number;
  /** The typical step: of the run so far, or of the whole run once it has ended. */
  readonly measuredMs?: number;
  /** (predicted − measured) ÷ measured: below 0 the step takes longer than was predicted. */
  readonly error?: number;
  /** Of the whole training, as its file says. */
  readonly steps?: number;
  /** When the last of them ends, while a run goes on. */
  readonly endsAtMs?: number;
}

/** Undefined where nothing predicted the step and nothing measured it. */
export function stepOf(
  view: Pick<JobView, "attempts" | "spec">,
  live: readonly Pick<RunProgress, "stepMs">[],
): StepFacts | undefined {
  const { attempts, spec } = view;
  const last = attempts.at(-1);
  const predictedMs = last && predictedOf(last);
  const measuredMs = last?.stepMs ?? live.flatMap(({ stepMs }) => stepMs ?? []).at(0);
  if (predictedMs === undefined && measuredMs === undefined) return undefined;
  const endsAtMs = endOf(view, measuredMs ?? predictedMs);
  return {
    ...(spec?.steps !== undefined && { steps: spec.steps }),
    ...(endsAtMs !== undefined && { endsAtMs }),
    ...(predictedMs !== undefined && { predictedMs }),
    ...(measuredMs !== undefined && { measuredMs }),
    ...(predictedMs !== undefined &&
      measuredMs !== undefined && { error: (predictedMs - measuredMs) / measuredMs }),
  };
}

type Attempt = JobView["attempts"][number];

const predictedOf = ({ launchExtras = [] }: Attempt): number | undefined =>
  launchExtras.flatMap(({ planned }) => planned?.stepMs ?? []).at(0);

function endOf(
  { attempts, spec }: Pick<JobView, "attempts" | "spec">,
  stepMs: number | undefined,
): number | undefined {
  const startedAtMs = attempts.at(-1)?.startedAtMs;
  if (spec?.steps === undefined || stepMs === undefined) return undefined;
  if (startedAtMs === undefined || attempts.at(-1)?.endedAtMs !== undefined) return undefined;
  const done = attempts.slice(0, -1).reduce((sum, attempt) => sum + stepsOf(attempt, stepMs), 0);
  const endsAtMs = startedAtMs + Math.max(0, spec.steps - done) * stepMs;
  return endsAtMs <= LAST_DATE_MS ? endsAtMs : undefined;
}

/** No later time is a date (ECMA-262, time values). */
const LAST_DATE_MS = 8.64e15;

/** Those for which a run that has ended had time; `usualMs`: where nobody knows its step. */
function stepsOf(attempt: Attempt, usualMs: number): number {
  const { startedAtMs, endedAtMs, stepMs } = attempt;
  if (startedAtMs === undefined || endedAtMs === undefined) return 0;
  return Math.floor((endedAtMs - startedAtMs) / (stepMs ?? predictedOf(attempt) ?? usualMs));
}

/** When the job ends; undefined where its file does not say its steps, nobody knows how long one takes, or no run goes on. */
export function endText(facts: StepFacts | undefined, nowMs: number): string | undefined {
  const { steps, endsAtMs, measuredMs } = facts ?? {};
  if (steps === undefined || endsAtMs === undefined) return undefined;
  const by = `by ${counted(steps, "step")} as ${measuredMs === undefined ? "predicted" : "measured"}`;
  if (endsAtMs <= nowMs) return `about now, ${by}`;
  return `about ${timeText(endsAtMs)} (in ${durationText(endsAtMs - nowMs)}), ${by}`;
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
