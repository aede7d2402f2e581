/**
 * @file Changes of waiting requests in a ledger's transaction: the accounts are settled first, then the watcher is notified.
 *
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { JobId } from "../../../domain/values/ids.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { countBytes } from "../rules/byte-shares.ts";
import { take } from "../rules/places.ts";
import { noteRequest } from "../rules/service-account.ts";
import { keptRequest } from "../kept-shape.ts";
import { withoutJob } from "../rules/start-estimates.ts";
import { sizeRequest } from "../size-account.ts";
import { countRequestDemand, settledBook } from "./transaction-accounts.ts";
import { putReason } from "./transaction-size.ts";
import { noteChange, type LedgerTransaction } from "./transaction.ts";

/** Replaces the job's former request, at the end of the queue. */
export function putRequest(transaction: LedgerTransaction, asked: PendingRequest): void {
  const request = keptRequest(asked);
  const book = settledBook(transaction);
  countRequestDemand(transaction, transaction.requests.get(request.jobId), request);
  const former = takeRequest(transaction, request.jobId);
  if (transaction.size !== undefined) sizeRequest(transaction.size, { after: request });
  transaction.drafts.requests.write().set(request.jobId, request);
  noteRequest(book, former, request);
  countShares(transaction, former, request);
  transaction.watcher.request?.(former, request);
  noteChange(transaction);
}

export function dropRequest(transaction: LedgerTransaction, job: JobId): void {
  if (!transaction.requests.has(job)) return;
  const book = settledBook(transaction);
  countRequestDemand(transaction, transaction.requests.get(job), undefined);
  const former = takeRequest(transaction, job);
  noteRequest(book, former, undefined);
  countShares(transaction, former, undefined);
  transaction.watcher.request?.(former, undefined);
  noteChange(transaction);
}

function takeRequest(transaction: LedgerTransaction, job: JobId): PendingRequest | undefined {
  const former = transaction.requests.get(job);
  if (former !== undefined) {
    if (transaction.size !== undefined) sizeRequest(transaction.size, { before: former });
    transaction.drafts.requests.write().delete(job);
  }
  putReason(transaction, job, undefined);
  transaction.ownEstimates = withoutJob(transaction.ownEstimates, job);
  return former;
}

function countShares(
  { places, byteShares }: LedgerTransaction,
  before: PendingRequest | undefined,
  after: PendingRequest | undefined,
): void {
  if (byteShares !== undefined) countBytes(byteShares, { before, after });
  if (places === undefined) return;
  if (before !== undefined) take(places, before, -1);
  if (after !== undefined) take(places, after, 1);
}
