/**
 * @file The times at which the fleet estimates the starts of waiting jobs (forecast/self-forecast.ts): a fixed grid.
 *
 * Estimates made when a queue begins or ends would teach about such moments alone, while users ask at any time. The period is a little
 * less than half an hour, so that every minute of the hour is met equally often.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { Ledger } from "../ledger.ts";

export const ESTIMATE_PERIOD_MS = 1_723_000;
/** With fewer notes of runs an estimate is a guess. */
const LEAST_RUNS = 8;

/** The first time of the grid after this one; infinite while nobody waits, or too little is known. */
export const nextEstimateAtMs = ({ requests, runs = [] }: Ledger, afterMs: number): number =>
  requests.size === 0 || runs.length < LEAST_RUNS
    ? Infinity
    : (Math.floor(afterMs / ESTIMATE_PERIOD_MS) + 1) * ESTIMATE_PERIOD_MS;
