/**
 * @file The fleet's own start estimates and what became of them: so it is known how far such estimates are to be trusted here.
 *
 * Now and then the fleet asks itself when some of its waiting jobs will start (foresight.ts). Each answer is kept in order of asking
 * until `MAX_FORESEEN` newer ones are there, whether it has come out or not: whoever kept those alone that have, would know of the
 * quick starts only. It is about one request: the grant of that very request is its start, and a request that goes without a grant
 * takes its estimates along. No decision reads them; calibration.ts does. Cost: O(estimates) a change of a request, 0 without any.
 */

import type { JobId } from "../domain/ids.ts";
import type { RequestKey } from "../domain/lease.ts";

/** A hundred scores bear a quantile of a tenth; each is some 30 bytes of the fleet's state. */
export const MAX_FORESEEN = 160;

/** What the plays of the queue said; infinite where it started in too few of them. */
export interface Interval {
  readonly fromMs: number;
  readonly medianMs: number;
  readonly toMs: number;
}

/** In whole milliseconds, none before it was asked: a clock of another machine may be a little behind. */
export interface Foreseen extends Interval {
  readonly askedAtMs: number;
  readonly outcome:
    /** Its request is the one that the job waits with. */
    | { readonly kind: "waits"; readonly jobId: JobId }
    | { readonly kind: "started"; readonly atMs: number };
}

/** An estimate on its way to the ledger; JSON knows no infinity, so a time beyond all plays is absent. */
export interface StartEstimate {
  readonly request: RequestKey;
  readonly fromMs?: number;
  readonly medianMs?: number;
  readonly toMs?: number;
}

/** Adds what was estimated at one time; one whose median is beyond all plays says nothing that could be scored. */
export function withEstimate(
  foreseen: readonly Foreseen[],
  { fromMs = Infinity, medianMs = Infinity, toMs = Infinity }: StartEstimate,
  at: Pick<Foreseen, "askedAtMs" | "outcome">,
): readonly Foreseen[] {
  if (medianMs === Infinity) return foreseen;
  const askedAtMs = Math.round(at.askedAtMs);
  const times = {
    fromMs: notBefore(askedAtMs, fromMs),
    medianMs: notBefore(askedAtMs, medianMs),
    toMs: notBefore(askedAtMs, toMs),
  };
  return [...foreseen, { askedAtMs, ...times, outcome: at.outcome }].slice(-MAX_FORESEEN);
}

/** The request that the job waits with was granted. */
export function withStart(
  foreseen: readonly Foreseen[],
  jobId: JobId,
  atMs: number,
): readonly Foreseen[] {
  if (!foreseen.some((each) => isOf(each, jobId))) return foreseen;
  return foreseen.map((each) =>
    isOf(each, jobId)
      ? { ...each, outcome: { kind: "started", atMs: notBefore(each.askedAtMs, atMs) } }
      : each,
  );
}

/** The request that the job waits with is gone. */
export const withoutJob = (foreseen: readonly Foreseen[], jobId: JobId): readonly Foreseen[] =>
  foreseen.some((each) => isOf(each, jobId))
    ? foreseen.filter((each) => !isOf(each, jobId))
    : foreseen;

const notBefore = (askedAtMs: number, atMs: number): number =>
  Math.max(askedAtMs, Math.round(atMs));

const isOf = ({ outcome }: Foreseen, jobId: JobId): boolean =>
  outcome.kind === "waits" && outcome.jobId === jobId;
