/**
 * @file Draws some waiting jobs at random and estimates their starts, so that the fleet can compare its estimates with the starts.
 *
 * The draw is random because estimates for the first jobs in the queue, or for stuck ones, would teach about such jobs alone, while
 * users ask about all. estimate-clock.ts says when the fleet draws. Cost: one forecast (forecast.ts).
 */

import type { JobId } from "../../domain/values/ids.ts";
import { randomFrom, sampled } from "../../lib/random.ts";
import { awaited, playForward, type Forecast } from "./forecast.ts";
import type { StartEstimate } from "../../domain/lease/start-estimate.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** The jobs share the plays, so a few cost as much as one; the estimates of one time all err together, so more teach little. */
const ASKED_AT_ONCE = 4;

/** Estimates for some of the waiting jobs. The same ledger and time give the same answer. */
export const estimateStarts = (ledger: Ledger, nowMs: number): readonly StartEstimate[] =>
  awaited(
    playForward(ledger, askedAt(ledger, nowMs), { nowMs, seed: nowMs }),
    ledger,
    nowMs,
  ).flatMap((found) => estimateOf(ledger, found));

export function askedAt({ requests }: Ledger, nowMs: number): readonly JobId[] {
  return sampled([...requests.keys()], ASKED_AT_ONCE, randomFrom(nowMs, "foresight"));
}

function estimateOf(ledger: Ledger, found: Forecast): StartEstimate[] {
  const request = ledger.requests.get(found.jobId);
  if (request === undefined) return [];
  const { jobId, runId, seq } = request;
  const { fromMs, medianMs, toMs } = found;
  return [
    {
      request: { jobId, runId, seq },
      ...(fromMs < Infinity && { fromMs }),
      ...(medianMs < Infinity && { medianMs }),
      ...(toMs < Infinity && { toMs }),
    },
  ];
}
