/**
 * @file Which waiting jobs are told why they wait now, and when the earliest note is or was due.
 *
 * A note costs its job four events, so most jobs never get one: it goes out after three seconds of waiting, at once when
 * the fleet can never satisfy the request, and again only when the code has changed, at most once a minute. Live numbers
 * come from asking the fleet. Cost: O(waiting requests) a call.
 */

import type { PendingNote } from "../activities/control-contract.ts";
import { HOPELESS_CODES, type PendingCode } from "../domain/codes.ts";
import type { JobId } from "../domain/ids.ts";
import type { Ledger } from "../scheduling/ledger.ts";

/** What a job was told last. */
export interface Told {
  readonly code: PendingCode;
  readonly atMs: number;
}

const FIRST_NOTE_MS = 3_000;
const NEXT_NOTE_MS = 60_000;

export function pendingNotes(
  ledger: Ledger,
  told: ReadonlyMap<JobId, Told>,
  nowMs: number,
): { readonly notes: readonly PendingNote[]; readonly nextAtMs: number } {
  const notes: PendingNote[] = [];
  let nextAtMs = Infinity;
  for (const { jobId, runId, seq, requestedAtMs } of ledger.requests.values()) {
    const reason = ledger.reasons.get(jobId);
    if (reason === undefined) continue;
    const last = told.get(jobId);
    if (last?.code === reason.code) continue;
    const first = HOPELESS_CODES.has(reason.code) ? requestedAtMs : requestedAtMs + FIRST_NOTE_MS;
    const dueAtMs = last === undefined ? first : last.atMs + NEXT_NOTE_MS;
    if (dueAtMs <= nowMs) notes.push({ jobId, runId, seq, reason });
    nextAtMs = Math.min(nextAtMs, dueAtMs);
  }
  return { notes, nextAtMs };
}
