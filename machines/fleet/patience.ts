/**
 * @file Tells a job that this fleet has kept it waiting for as long as it would wait; the job then asks the next of its fleets.
 *
 * A request's patience counts from the time of the request, without the time in which this fleet could not decide: while it rebuilt a
 * lost ledger, and while no worker served its clocks (they rang late). The patience is over only once a cycle that ran after that moment
 * has left the request waiting, so every request had a decision. An unanswered notice is repeated after a minute.
 * Cost: O(waiting requests) after a change of any, else O(those with a patience · gaps).
 */

import type { PendingNote } from "../../protocol/control-contract.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

/** No worker served a clock that rings so late. */
const LATE_MS = 5_000;
const MAX_GAPS = 50;
const REPEAT_AFTER_MS = 60_000;

export interface Patience {
  /** Times in which this fleet could not decide, oldest first. */
  readonly gaps: readonly Gap[];
  /** The last notice to each job whose patience was over. */
  readonly notices: ReadonlyMap<JobId, { readonly seq: number; readonly atMs: number }>;
  /** The time for which the last cycle decided. */
  readonly decidedAtMs: number;
}

interface Gap {
  readonly fromMs: number;
  readonly toMs: number;
}

export const FULL_PATIENCE: Patience = { gaps: [], notices: new Map(), decidedAtMs: -Infinity };

export const afterGap = (patience: Patience, gap: Gap): Patience =>
  gap.toMs <= gap.fromMs
    ? patience
    : { ...patience, gaps: [...patience.gaps, gap].slice(-MAX_GAPS) };

/** A clock that was to ring at `dueAtMs` rang now. */
export const afterClock = (patience: Patience, dueAtMs: number, nowMs: number): Patience =>
  nowMs - dueAtMs > LATE_MS ? afterGap(patience, { fromMs: dueAtMs, toMs: nowMs }) : patience;

export const afterCycle = (patience: Patience, decidedAtMs: number): Patience => ({
  ...patience,
  decidedAtMs,
});

/** When the next patience ends that no cycle has judged yet; infinite when none does. */
export const nextExpiryAtMs = (patience: Patience, { requests }: Ledger): number =>
  soonest(requests, (each) => (isExpired(patience, each) ? Infinity : expiryOf(patience, each)));

/** When the next notice is or was due. */
export const nextExpiryNoticeAtMs = (patience: Patience, { requests }: Ledger): number =>
  soonest(requests, (each) => (isExpired(patience, each) ? noticeAtMs(patience, each) : Infinity));

interface ExpiryOptions {
  readonly fleet: string;
  readonly most: number;
  readonly nowMs: number;
}

/** The notices that are due, in order of arrival; they count as sent. */
export function takeExpired(
  patience: Patience,
  { requests, reasons }: Ledger,
  { fleet, most, nowMs }: ExpiryOptions,
): { readonly patience: Patience; readonly notes: readonly PendingNote[] } {
  const due: PendingRequest[] = [];
  for (const each of patientIn(requests)) {
    if (due.length >= most) break;
    if (isExpired(patience, each) && noticeAtMs(patience, each) <= nowMs) due.push(each);
  }
  const stillWaiting = [...patience.notices].filter(([id]) => requests.has(id));
  const sent = due.map(({ jobId, seq }) => [jobId, { seq, atMs: nowMs }] as const);
  return {
    patience: { ...patience, notices: new Map([...stillWaiting, ...sent]) },
    notes: due.map(({ jobId, runId, seq, patienceMs = 0 }) => {
      return { jobId, runId, seq, reason: reasonOf(fleet, patienceMs, reasons.get(jobId)) };
    }),
  };
}

/** Each gap after the request that begins before the patience ends puts the end off. */
function expiryOf({ gaps }: Patience, { requestedAtMs, patienceMs }: PendingRequest): number {
  if (patienceMs === undefined) return Infinity;
  return gaps.reduce(
    (endAtMs, { fromMs, toMs }) =>
      toMs <= requestedAtMs || fromMs > endAtMs
        ? endAtMs
        : endAtMs + toMs - Math.max(fromMs, requestedAtMs),
    requestedAtMs + patienceMs,
  );
}

const isExpired = (patience: Patience, request: PendingRequest): boolean =>
  request.patienceMs !== undefined && expiryOf(patience, request) <= patience.decidedAtMs;

/** Of an expired request. */
function noticeAtMs({ notices, decidedAtMs }: Patience, { jobId, seq }: PendingRequest): number {
  const last = notices.get(jobId);
  return last?.seq === seq ? last.atMs + REPEAT_AFTER_MS : decidedAtMs;
}

function soonest(requests: Ledger["requests"], atMs: (request: PendingRequest) => number): number {
  let least = Infinity;
  for (const each of patientIn(requests)) least = Math.min(least, atMs(each));
  return least;
}

/** Most requests have no patience, and a look at each costs more than all that is asked of the others. */
function patientIn(requests: Ledger["requests"]): readonly PendingRequest[] {
  const known = PATIENT.get(requests);
  if (known !== undefined) return known;
  const patient: PendingRequest[] = [];
  for (const each of requests.values()) if (each.patienceMs !== undefined) patient.push(each);
  PATIENT.set(requests, patient);
  return patient;
}

/** Maps of a fleet's ledger never change: a change makes another map. */
const PATIENT = new WeakMap<Ledger["requests"], readonly PendingRequest[]>();

const reasonOf = (
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
