/**
 * @file Chooses the waiting jobs that are to be notified now of why they wait, and says when the next notice is or was due.
 *
 * A notice costs its job some five events of history, so most jobs never get one. The first goes out after three seconds of waiting, or at
 * once when the fleet can never satisfy the request. Another follows only when the code has changed, at most once a minute; from rules of
 * version 3 on also for a later request of the job, because a job acts upon its code (it asks again for hosts that refused it). Live numbers
 * come from asking the fleet. Cost: O(waiting requests) after a change of any, else O(notices to come).
 */

import type { PendingNote } from "../../protocol/control-contract.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import { HOPELESS_CODES, PENDING_CODES, type PendingCode } from "../../domain/values/codes.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { isClocked, type Ledger } from "../../scheduling/ledger/ledger.ts";

/** The last notice to a job. */
export interface Notified {
  readonly code: PendingCode;
  readonly atMs: number;
  /** Of the request that it was about; absent by rules before version 3. */
  readonly seq?: number;
}

const NEVER = "-";
const FIRST_CODE = "A".charCodeAt(0);

/** The codes of the last notices, a character each in the order of the requests: all that the next run needs of them. */
export const packNotified = (
  { requests }: Pick<Ledger, "requests">,
  notified: ReadonlyMap<JobId, Notified>,
): string =>
  [...requests]
    .map(([job, { seq }]) => {
      const last = notified.get(job);
      return last === undefined || (last.seq ?? seq) !== seq
        ? NEVER
        : String.fromCharCode(FIRST_CODE + PENDING_CODES.indexOf(last.code));
    })
    .join("");

/** Of whom a run's input says that they were notified. */
export const notifiedIn = (
  { notified = [], notifiedCodes }: Pick<FleetInput, "notified" | "notifiedCodes">,
  ledger: Pick<Ledger, "requests" | "applyVersion">,
  nowMs: number,
): ReadonlyMap<JobId, Notified> =>
  notifiedCodes === undefined
    ? new Map(notified.map(([id, code, atMs]) => [id, { code, atMs }]))
    : unpackNotified(ledger, notifiedCodes, nowMs);

/** Whoever was notified was so at `atMs` at the latest. */
export function unpackNotified(
  ledger: Pick<Ledger, "requests" | "applyVersion">,
  codes: string,
  atMs: number,
): Map<JobId, Notified> {
  const notified = new Map<JobId, Notified>();
  [...ledger.requests.values()].forEach(({ jobId, seq }, place) => {
    const code = PENDING_CODES[codes.charCodeAt(place) - FIRST_CODE];
    if (code !== undefined) notified.set(jobId, noticeOf(ledger, { code, atMs, seq }));
  });
  return notified;
}

/** As the rules of the ledger keep it. */
export const noticeOf = (
  ledger: Pick<Ledger, "applyVersion">,
  { code, atMs, seq }: Required<Notified>,
): Notified => ({ code, atMs, ...(isClocked(ledger) && { seq }) });

const FIRST_NOTICE_MS = 3_000;
const NEXT_NOTICE_MS = 60_000;

/** The notices that are due, in the order of their requests. */
export function noticesDue(
  { requests, reasons }: Pick<Ledger, "requests" | "reasons">,
  notified: ReadonlyMap<JobId, Notified>,
  nowMs: number,
): readonly PendingNote[] {
  const due = new Map<JobId, PendingReason>();
  for (const { jobId, reason, atMs } of untoldIn({ requests, reasons }, notified))
    if (atMs <= nowMs) due.set(jobId, reason);
  if (due.size === 0) return [];
  const notes: PendingNote[] = [];
  for (const { jobId, runId, seq } of requests.values()) {
    const reason = due.get(jobId);
    if (reason !== undefined) notes.push({ jobId, runId, seq, reason });
  }
  return notes;
}

/** Infinite when no notice is to be sent. */
export function nextNoticeAtMs(
  ledger: Pick<Ledger, "requests" | "reasons">,
  notified: ReadonlyMap<JobId, Notified>,
): number {
  let nextAtMs = Infinity;
  for (const { atMs } of untoldIn(ledger, notified)) nextAtMs = Math.min(nextAtMs, atMs);
  return nextAtMs;
}

/** A waiting job that has yet to hear its code, and when it is to. */
interface Untold {
  readonly jobId: JobId;
  readonly reason: PendingReason;
  readonly atMs: number;
}

interface Found extends Pick<Ledger, "requests"> {
  readonly notified: ReadonlyMap<JobId, Notified>;
  readonly untold: readonly Untold[];
}

/** The last answer for these reasons. Maps of a fleet's state never change: a change makes another map. */
const FOUND = new WeakMap<Ledger["reasons"], Found>();

function untoldIn(
  { requests, reasons }: Pick<Ledger, "requests" | "reasons">,
  notified: ReadonlyMap<JobId, Notified>,
): readonly Untold[] {
  const known = FOUND.get(reasons);
  if (known?.requests === requests && known.notified === notified) return known.untold;
  const untold: Untold[] = [];
  for (const [jobId, reason] of reasons) {
    const last = notified.get(jobId);
    const request = requests.get(jobId);
    if (last?.code === reason.code && (last.seq ?? request?.seq) === request?.seq) continue;
    if (request !== undefined) untold.push({ jobId, reason, atMs: dueAtMs(request, reason, last) });
  }
  FOUND.set(reasons, { requests, notified, untold });
  return untold;
}

/** Of a request whose job does not know the code yet. */
function dueAtMs(
  { requestedAtMs }: PendingRequest,
  { code }: PendingReason,
  last: Notified | undefined,
): number {
  if (last !== undefined) return last.atMs + NEXT_NOTICE_MS;
  return requestedAtMs + (HOPELESS_CODES.has(code) ? 0 : FIRST_NOTICE_MS);
}
