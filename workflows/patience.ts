/**
 * @file When a fleet has kept a job for as long as the job would wait: it tells it so, and the job asks the next of its fleets.
 *
 * A request's patience counts from when it was made, without the time in which this fleet could not decide: while it put a lost ledger
 * together, and while nobody ran its clocks (they rang late). Over is over only once a cycle that ran after that moment has left the request
 * waiting, so everybody had a decision. A word that is not followed is said again. Hidden mutable state, one a run. Cost: O(waiting requests) a call.
 */

import type { PendingNote } from "../activities/control-contract.ts";
import type { JobId } from "../domain/ids.ts";
import type { PendingReason } from "../domain/pending.ts";
import type { PendingRequest } from "../domain/plan.ts";
import type { Ledger } from "../scheduling/ledger.ts";

/** A clock that rings so late was not minded. */
const LATE_MS = 5_000;
const MAX_GAPS = 50;
const AGAIN_MS = 60_000;

export interface Patience {
  /** A clock that was to ring at `dueAtMs` rang now. */
  readonly rang: (dueAtMs: number, nowMs: number) => void;
  /** Nothing could be decided between the two. */
  readonly gap: (fromMs: number, toMs: number) => void;
  /** A cycle has ended that decided as of this moment. */
  readonly judged: (nowMs: number) => void;
  /** When the next patience ends that no cycle has judged yet; infinite when none does. */
  readonly nextJudgementAtMs: (ledger: Ledger) => number;
  /** When the next word is to be said, or was. */
  readonly nextWordAtMs: (ledger: Ledger) => number;
  /** The words that are due; they count as said. */
  readonly take: (ledger: Ledger, most: number, nowMs: number) => readonly PendingNote[];
}

export function openPatience(name: string): Patience {
  const gaps: { readonly fromMs: number; readonly toMs: number }[] = [];
  const said = new Map<JobId, { readonly seq: number; readonly atMs: number }>();
  let judgedAtMs = -Infinity;

  const endOf = ({ requestedAtMs, patienceMs }: PendingRequest): number => {
    if (patienceMs === undefined) return Infinity;
    return gaps.reduce(
      (endAtMs, { fromMs, toMs }) =>
        toMs <= requestedAtMs || fromMs > endAtMs
          ? endAtMs
          : endAtMs + toMs - Math.max(fromMs, requestedAtMs),
      requestedAtMs + patienceMs,
    );
  };
  const isJudged = (request: PendingRequest): boolean => endOf(request) <= judgedAtMs;
  /** Of a judged one. */
  const wordAtMs = ({ jobId, seq }: PendingRequest): number => {
    const last = said.get(jobId);
    return last?.seq === seq ? last.atMs + AGAIN_MS : judgedAtMs;
  };

  return {
    rang: (due, nowMs) => {
      if (nowMs - due > LATE_MS) note(due, nowMs);
    },
    gap: note,
    judged: (nowMs) => {
      judgedAtMs = nowMs;
    },
    nextJudgementAtMs: ({ requests }) =>
      soonest(requests, (each) => (isJudged(each) ? Infinity : endOf(each))),
    nextWordAtMs: ({ requests }) =>
      soonest(requests, (each) => (isJudged(each) ? wordAtMs(each) : Infinity)),
    take: ({ requests, reasons }, most, nowMs) => {
      for (const id of said.keys()) if (!requests.has(id)) said.delete(id);
      const isDue = (each: PendingRequest): boolean => isJudged(each) && wordAtMs(each) <= nowMs;
      const over = [...requests.values()].filter(isDue).slice(0, most);
      return over.map(({ jobId, runId, seq, patienceMs = 0 }) => {
        said.set(jobId, { seq, atMs: nowMs });
        return { jobId, runId, seq, reason: overReason(name, patienceMs, reasons.get(jobId)) };
      });
    },
  };

  function note(fromMs: number, toMs: number): void {
    if (toMs <= fromMs) return;
    gaps.push({ fromMs, toMs });
    if (gaps.length > MAX_GAPS) gaps.shift();
  }
}

const soonest = (requests: Ledger["requests"], atMs: (request: PendingRequest) => number): number =>
  [...requests.values()].reduce((least, each) => Math.min(least, atMs(each)), Infinity);

const overReason = (
  fleet: string,
  patienceMs: number,
  known: PendingReason | undefined,
): PendingReason => ({
  code: "PatienceOver",
  message: `fleet ${fleet} has not placed it within its patience of ${patienceMs / 1000} s${
    known === undefined ? "" : ` (${known.code}: ${known.message})`
  }`,
  numbers: { patienceMs, ...known?.numbers },
  holders: known?.holders ?? [],
  wakeOn: ["timer"],
});
