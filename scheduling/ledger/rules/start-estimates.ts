/**
 * @file The fleet's own start estimates and their outcomes, which show how reliable such estimates are in this fleet.
 *
 * From time to time the fleet estimates the starts of some waiting jobs (forecast/self-forecast.ts). Estimates are kept in the order of their
 * questions until `MAX_KEPT_ESTIMATES` newer ones exist, whether their jobs have started or not: keeping only the started ones would keep
 * only quick starts. An estimate belongs to one request: the grant of that request is its start, and a request that ends without a grant
 * takes its estimates with it. No decision reads them; estimates/interval-calibration.ts does.
 * Cost: O(estimates) a change of a request. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { JobId } from "../../../domain/values/ids.ts";
import type { StartEstimate } from "../../../domain/lease/start-estimate.ts";

/** A hundred scores bear a quantile of a tenth; each is some 30 bytes of the fleet's state. */
export const MAX_KEPT_ESTIMATES = 160;

/** What the plays of the queue said; infinite where it started in too few of them. */
export interface Interval {
  readonly fromMs: number;
  readonly medianMs: number;
  readonly toMs: number;
}

/** In whole milliseconds, none before it was asked: a clock of another machine may be a little behind. */
export interface KeptEstimate extends Interval {
  readonly askedAtMs: number;
  readonly outcome:
    /** Its request is the one that the job waits with. */
    | { readonly kind: "waits"; readonly jobId: JobId }
    | { readonly kind: "started"; readonly atMs: number };
}

/** Adds what was estimated at one time; one whose median is beyond all plays says nothing that could be scored. */
export function withEstimate(
  ownEstimates: readonly KeptEstimate[],
  { fromMs = Infinity, medianMs = Infinity, toMs = Infinity }: StartEstimate,
  at: Pick<KeptEstimate, "askedAtMs" | "outcome">,
): readonly KeptEstimate[] {
  if (medianMs === Infinity) return ownEstimates;
  const askedAtMs = Math.round(at.askedAtMs);
  const times = {
    fromMs: notBefore(askedAtMs, fromMs),
    medianMs: notBefore(askedAtMs, medianMs),
    toMs: notBefore(askedAtMs, toMs),
  };
  return [...ownEstimates, { askedAtMs, ...times, outcome: at.outcome }].slice(-MAX_KEPT_ESTIMATES);
}

/** The request that the job waits with was granted. */
export function withStart(
  ownEstimates: readonly KeptEstimate[],
  jobId: JobId,
  atMs: number,
): readonly KeptEstimate[] {
  if (!ownEstimates.some((each) => isOf(each, jobId))) return ownEstimates;
  return ownEstimates.map((each) =>
    isOf(each, jobId)
      ? { ...each, outcome: { kind: "started", atMs: notBefore(each.askedAtMs, atMs) } }
      : each,
  );
}

/** The request that the job waits with is gone. */
export const withoutJob = (
  ownEstimates: readonly KeptEstimate[],
  jobId: JobId,
): readonly KeptEstimate[] =>
  ownEstimates.some((each) => isOf(each, jobId))
    ? ownEstimates.filter((each) => !isOf(each, jobId))
    : ownEstimates;

const notBefore = (askedAtMs: number, atMs: number): number =>
  Math.max(askedAtMs, Math.round(atMs));

const isOf = ({ outcome }: KeptEstimate, jobId: JobId): boolean =>
  outcome.kind === "waits" && outcome.jobId === jobId;
