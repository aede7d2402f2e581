/**
 * @file Packs the reason of a waiting request as a row, and unpacks it. Equal reasons of two jobs are one row.
 *
 * Cost: O(fields). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { PENDING_CODES } from "../../domain/values/codes.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { Interner } from "../../lib/interner.ts";
import { MARK, type ReasonRow } from "./codec-rows.ts";
import { entry } from "./codec-values.ts";

export function packReason(
  job: JobId,
  { code, message, numbers, holders, wakeOn }: PendingReason,
): ReasonRow {
  const isVerbatim = message.includes(MARK);
  const text = isVerbatim ? message : message.replaceAll(job, MARK);
  return [PENDING_CODES.indexOf(code), text, isVerbatim ? 1 : 0, numbers, holders, wakeOn];
}

/**
 * Gives the place of a reason in the table. Reasons that were unpacked from one row have its very parts, so of most the key need not be
 * written; equal parts make equal rows.
 */
export function reasonPlaces({
  indexOf,
}: Interner<ReasonRow>): (job: JobId, reason: PendingReason) => number {
  const known = new Map<ReasonRow[3], { readonly row: ReasonRow; readonly place: number }>();
  return (job, reason) => {
    const row = packReason(job, reason);
    const like = known.get(reason.numbers);
    if (like?.row.every((part, at) => part === row[at]) === true) return like.place;
    const place = indexOf(row);
    known.set(reason.numbers, { row, place });
    return place;
  };
}

export const unpackReason = (row: ReasonRow, job: JobId): PendingReason =>
  reasonOf(row, partsOf(row), job);

/** `pairs`: index of the request, index of the reason. In the order of the pairs. */
export function unpackReasons(
  pairs: readonly number[],
  requests: readonly PendingRequest[],
  rows: readonly ReasonRow[],
): Map<JobId, PendingReason> {
  const parts = rows.map(partsOf);
  const reasons = new Map<JobId, PendingReason>();
  for (let at = 0; at < pairs.length; at += 2) {
    const { jobId: job } = entry(requests, entry(pairs, at));
    const place = entry(pairs, at + 1);
    reasons.set(job, reasonOf(entry(rows, place), entry(parts, place), job));
  }
  return reasons;
}

/** The message between the places of the job's id. */
const partsOf = ([, text, isVerbatim]: ReasonRow): readonly string[] =>
  isVerbatim === 1 ? [text] : text.split(MARK);

const reasonOf = (
  [code, , , numbers, holders, wakeOn]: ReasonRow,
  parts: readonly string[],
  job: JobId,
): PendingReason => ({
  code: entry(PENDING_CODES, code),
  // Most messages name their job once, and thousands of texts that are put together later cost less.
  message: parts.length === 2 ? `${parts[0] ?? ""}${job}${parts[1] ?? ""}` : parts.join(job),
  numbers,
  holders,
  wakeOn,
});
