/**
 * @file The accounts of a ledger's transaction that must be settled before leases, requests or weights change: service and inference demand.
 *
 * Cost: O(ledger) to open an account, then O(flows) an event. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import {
  heldBy as inferenceGpus,
  noteDemand,
  openDemand,
  wantedBy,
} from "../rules/inference-demand.ts";
import type { Lease } from "../../../domain/lease/lease.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { openBook, reopenBook, settle, type ServiceBook } from "../rules/service-account.ts";
import type { LedgerTransaction } from "./transaction.ts";

/** The account of service, settled up to now. */
export function settledBook(transaction: LedgerTransaction): ServiceBook {
  const { formerBook } = transaction;
  transaction.book ??=
    formerBook === undefined ? openBook(transaction) : reopenBook(formerBook, transaction);
  settle(transaction.book, transaction.nowMs);
  return transaction.book;
}

/** Before a lease changes. */
export const countLeaseDemand = (
  transaction: LedgerTransaction,
  before: Lease | undefined,
  after: Lease | undefined,
): void => countDemand(transaction, inferenceGpus(after) - inferenceGpus(before));

/** Before a request changes. */
export const countRequestDemand = (
  transaction: LedgerTransaction,
  before: PendingRequest | undefined,
  after: PendingRequest | undefined,
): void => countDemand(transaction, wantedBy(after) - wantedBy(before));

function countDemand(transaction: LedgerTransaction, moreGpus: number): void {
  if (moreGpus === 0) return;
  const { before, leases, requests } = transaction;
  const { latencyDemand } = before;
  transaction.demand ??= openDemand({ leases, requests, ...(latencyDemand && { latencyDemand }) });
  noteDemand(transaction.demand, moreGpus, transaction.nowMs);
}
