/**
 * @file Chooses the waiting jobs that are to be notified now of why they wait, and says when the next notice is or was due.
 *
 * A notice costs its job four events of history, so most jobs never get one. The first goes out after three seconds of waiting, or at
 * once when the fleet can never satisfy the request. Another follows only when the code has changed, at most once a minute. Live numbers
 * come from asking the fleet. Cost: O(waiting requests) a call.
 */

import type { PendingNote } from "../../protocol/control-contract.ts";
import { HOPELESS_CODES, PENDING_CODES, type PendingCode } from "../../domain/values/codes.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

/** The last notice to a job. */
export interface Notified {
  readonly code: PendingCode;
  readonly atMs: number;
}

const NEVER = "-";
const FIRST_CODE = "A".charCodeAt(0);

/** The codes of the last notices, a character each in the order of the requests: all that the next run needs of them. */
export const packNotified = (
  { requests }: Pick<Ledger, "requests">,
  notified: ReadonlyMap<JobId, Notified>,
): string =>
  [...requests.keys()]
    .map((job) => {
      const last = notified.get(job);
      return last === undefined
        ? NEVER
        : String.fromCharCode(FIRST_CODE + PENDING_CODES.indexOf(last.code));
    })
    .join("");

/** Whoever was notified was so at `atMs` at the latest. */
export function unpackNotified(
  { requests }: Pick<Ledger, "requests">,
  codes: string,
  atMs: number,
): Map<JobId, Notified> {
  const notified = new Map<JobId, Notified>();
  [...requests.keys()].forEach((job, place) => {
    const code = PENDING_CODES[codes.charCodeAt(place) - FIRST_CODE];
    if (code !== undefined) notified.set(job, { code, atMs });
  });
  return notified;
}

const FIRST_NOTICE_MS = 3_000;
const NEXT_NOTICE_MS = 60_000;

/** The notices that are due, in the order of their requests. */
export function noticesDue(
  { requests, reasons }: Ledger,
  notified: ReadonlyMap<JobId, Notified>,
  nowMs: number,
): readonly PendingNote[] {
  const due: PendingNote[] = [];
  if (nextNoticeAtMs({ requests, reasons }, notified) > nowMs) return due;
  for (const request of requests.values()) {
    const { jobId, runId, seq } = request;
    const reason = reasons.get(jobId);
    if (reason !== undefined && dueAtMs(request, reason, notified.get(jobId)) <= nowMs)
      due.push({ jobId, runId, seq, reason });
  }
  return due;
}

/** Infinite when no notice is to be sent. */
export function nextNoticeAtMs(
  { requests, reasons }: Pick<Ledger, "requests" | "reasons">,
  notified: ReadonlyMap<JobId, Notified>,
): number {
  let nextAtMs = Infinity;
  for (const [job, reason] of reasons) {
    const last = notified.get(job);
    if (last?.code === reason.code) continue;
    const request = requests.get(job);
    if (request !== undefined) nextAtMs = Math.min(nextAtMs, dueAtMs(request, reason, last));
  }
  return nextAtMs;
}

/** Infinite when the job knows the code already. */
function dueAtMs(
  { requestedAtMs }: PendingRequest,
  { code }: PendingReason,
  last: Notified | undefined,
): number {
  if (last?.code === code) return Infinity;
  if (last !== undefined) return last.atMs + NEXT_NOTICE_MS;
  return requestedAtMs + (HOPELESS_CODES.has(code) ? 0 : FIRST_NOTICE_MS);
}
