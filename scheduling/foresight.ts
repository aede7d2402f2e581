/**
 * @file The fleet asks itself when some of its waiting jobs will start, drawn by lot: so that its estimates can be held against starts.
 *
 * By lot, because whoever asked about the first in line, or those that are stuck, would learn of such jobs alone, and users ask
 * about others. When it asks: foresight-clock.ts. Cost: one forecast (forecast.ts).
 */

import type { JobId } from "../domain/ids.ts";
import { randomFrom, sampled } from "../lib/random.ts";
import { playForward, type Forecast } from "./forecast.ts";
import type { StartEstimate } from "./foreseen.ts";
import type { Ledger } from "./ledger.ts";

/** They share the plays, so a few cost as much as one; many of one time would all err together. */
const ASKED_AT_ONCE = 4;

/** Of some of the jobs that wait. The same ledger and time: the same answer. */
export const foresee = (ledger: Ledger, nowMs: number): readonly StartEstimate[] =>
  playForward(ledger, askedAt(ledger, nowMs), { nowMs, seed: nowMs }).flatMap((told) =>
    estimateOf(ledger, told),
  );

export function askedAt({ requests }: Ledger, nowMs: number): readonly JobId[] {
  return sampled([...requests.keys()], ASKED_AT_ONCE, randomFrom(nowMs, "foresight"));
}

function estimateOf(ledger: Ledger, told: Forecast): StartEstimate[] {
  const request = ledger.requests.get(told.jobId);
  if (request === undefined) return [];
  const { jobId, runId, seq } = request;
  const { fromMs, medianMs, toMs } = told;
  return [
    {
      request: { jobId, runId, seq },
      ...(fromMs < Infinity && { fromMs }),
      ...(medianMs < Infinity && { medianMs }),
      ...(toMs < Infinity && { toMs }),
    },
  ];
}
