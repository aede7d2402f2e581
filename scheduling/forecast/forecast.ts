/**
 * @file Predicts when waiting jobs will start: plays the queue forward many times, and returns an interval of the starts.
 *
 * Each play (play.ts) runs the fleet's own decisions; only time and arrivals are uncertain. Run times are drawn from past runs
 * (run-times.ts), which are resampled for each play because they are a sample themselves; arrivals continue as they were lately, for a
 * while (arrival-rates.ts). The interval of the plays reaches from the 10th to the 90th percentile; a start beyond the horizon counts as
 * later. The published interval counts the wait so far, and is stretched by the error of the fleet's own earlier estimates
 * (interval-calibration.ts).
 * The same ledger, time and seed give the same answer. Cost: `samples` · steps decisions, at most `maxDecisions` in all.
 */

import type { JobId } from "../../domain/values/ids.ts";
import { randomFrom } from "../../lib/random.ts";
import { arrivalsOf } from "../estimates/arrival-rates.ts";
import {
  learnedStretch,
  meanStart,
  stretched,
  withWait,
} from "../estimates/interval-calibration.ts";
import type { DecidePorts, Policies } from "../cycle/cycle.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { runTimesOf } from "../estimates/run-times.ts";
import { play } from "./play.ts";

export interface ForecastOptions {
  readonly nowMs: number;
  readonly seed?: number;
  readonly samples?: number;
  /** Decisions of all plays together. When none is left, a job that has not started counts as later. */
  readonly maxDecisions?: number;
  /** No play goes beyond this. */
  readonly horizonMs?: number;
  readonly policies?: Policies;
  readonly ports?: DecidePorts;
}

const FORECAST_DEFAULTS = Object.freeze({
  seed: 1,
  samples: 10,
  maxDecisions: 1_500,
  horizonMs: 30 * 86_400_000,
});

export interface Forecast {
  readonly jobId: JobId;
  /** Percentiles of the plays' starts; infinite where the job did not start before the horizon. */
  readonly fromMs: number;
  readonly medianMs: number;
  readonly toMs: number;
  readonly plays: number;
  /** Past runs from which the times were drawn. */
  readonly runs: number;
  /** Earlier estimates of the fleet whose jobs have started: they set the stretch of the interval. */
  readonly learned: number;
}

/** What the plays alone say. */
export interface PlayedForecast extends Forecast {
  /** Mean of their starts, in logarithms of the time until them. */
  readonly meanMs: number;
}

/** One forecast for each of these jobs that waits in the ledger. */
export const forecast = (
  ledger: Ledger,
  jobs: Iterable<JobId>,
  options: ForecastOptions,
): readonly Forecast[] => calibrated(playForward(ledger, jobs, options), ledger, options.nowMs);

/** The plays' intervals with the waits so far, each stretched by what this fleet has learned of such. */
export const calibrated = (
  played: readonly PlayedForecast[],
  ledger: Ledger,
  nowMs: number,
): readonly Forecast[] =>
  awaited(played, ledger, nowMs).map((each) =>
    stretched(each, nowMs, learnedStretch(ledger.ownEstimates ?? [], each, nowMs)),
  );

/** What the plays say and what the jobs' waits so far add to it: the fleet's own estimates are kept so. */
export const awaited = (
  played: readonly PlayedForecast[],
  { requests }: Pick<Ledger, "requests">,
  nowMs: number,
): readonly Forecast[] =>
  played.flatMap((each) => {
    const request = requests.get(each.jobId);
    return request === undefined ? [] : [withWait(each, request, nowMs)];
  });

/** The intervals of the plays alone. All jobs share the plays. */
export function playForward(
  ledger: Ledger,
  jobs: Iterable<JobId>,
  options: ForecastOptions,
): readonly PlayedForecast[] {
  const { nowMs } = options;
  const { seed, samples, maxDecisions, horizonMs } = { ...FORECAST_DEFAULTS, ...options };
  const targets = [...new Set(jobs)].filter((job) => ledger.requests.has(job));
  const notes = ledger.runs ?? [];
  const streams = arrivalsOf(ledger, nowMs);
  const starts = new Map<JobId, number[]>(targets.map((job) => [job, []]));
  const random = randomFrom(seed, "forecast");
  let decisions = 0;
  let plays = 0;
  while (targets.length > 0 && plays < samples && decisions < maxDecisions) {
    const inPlay = random.stream(String(plays));
    const running = ledger.leases.values();
    const runTimes = runTimesOf(notes, { running, nowMs, resampling: inPlay.stream("notes") });
    const played = play(ledger, targets, {
      nowMs,
      untilMs: nowMs + horizonMs,
      maxDecisions: maxDecisions - decisions,
      runTimes,
      streams,
      random: inPlay,
      policies: options.policies,
      ports: options.ports,
    });
    decisions += played.decisions;
    // A play that ran out of decisions does not know when the remaining jobs would start.
    if (played.isCut && plays > 0) break;
    plays += 1;
    for (const [job, times] of starts) times.push(played.startsAtMs.get(job) ?? Infinity);
  }
  const learned = (ledger.ownEstimates ?? []).filter(
    (each) => each.outcome.kind === "started",
  ).length;
  return targets.map((job) => {
    const times = (starts.get(job) ?? []).sort((a, b) => a - b);
    const [fromMs, medianMs, toMs] = [0.1, 0.5, 0.9].map((share) => quantile(times, share));
    const none = Infinity;
    return {
      jobId: job,
      fromMs: fromMs ?? none,
      medianMs: medianMs ?? none,
      toMs: toMs ?? none,
      meanMs: times.length === 0 ? none : meanStart(times, nowMs),
      plays,
      runs: notes.length,
      learned,
    };
  });
}

/** The order statistic below which the next draw lies with this probability, or the nearest one. */
function quantile(sorted: readonly number[], share: number): number {
  const rank = share * (sorted.length + 1);
  const at = share < 0.5 ? Math.floor(rank) : Math.ceil(rank);
  return sorted[Math.min(sorted.length, Math.max(1, at)) - 1] ?? Infinity;
}
