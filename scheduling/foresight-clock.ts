/**
 * @file When the fleet asks itself how long its waiting jobs will wait (foresight.ts): at the times of a grid that nothing in it moves.
 *
 * Whoever asked when a queue begins, or ends, would learn of such moments alone, and users ask at others. The period is a little less
 * than half an hour, so that what comes on the hour is met as often as any other minute.
 */

import type { Ledger } from "./ledger.ts";

export const FORESIGHT_PERIOD_MS = 1_723_000;
/** With fewer notes of runs an estimate is a guess. */
const LEAST_RUNS = 8;

/** The first time of the grid after this one; infinite while nobody waits, or too little is known. */
export const nextForesightAtMs = ({ requests, runs = [] }: Ledger, afterMs: number): number =>
  requests.size === 0 || runs.length < LEAST_RUNS
    ? Infinity
    : (Math.floor(afterMs / FORESIGHT_PERIOD_MS) + 1) * FORESIGHT_PERIOD_MS;
