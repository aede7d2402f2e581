/**
 * @file Hands the indexes and accounts of one event on to the next, so that an event costs its changes and not the whole ledger.
 *
 * They belong to the ledger that the event left, and the next event on that ledger takes them with it; an event on an older ledger builds
 * its own. Nothing that is handed on differs from what is built afresh: sums that are not exact, and orders that changes may have
 * disturbed, are left out. So `apply` is a function of ledger and event alone.
 * Cost: O(1). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { Ledger } from "../ledger.ts";
import { indexOf } from "./transaction-index.ts";
import type { LedgerTransaction } from "./transaction.ts";

type KeptAccounts = Pick<
  LedgerTransaction,
  | "usage"
  | "reserved"
  | "leaseIdsByJob"
  | "evictingIds"
  | "opportunisticIds"
  | "formerBook"
  | "places"
  | "byteShares"
  | "size"
>;

const KEPT = new WeakMap<Ledger, KeptAccounts>();

/** From now on they change with the transaction. */
export function takeAccounts(transaction: LedgerTransaction): void {
  const { before } = transaction;
  const kept = KEPT.get(before);
  if (kept === undefined) return;
  KEPT.delete(before);
  Object.assign(transaction, kept);
}

/** `after`: the ledger that the transaction has ended with. */
export function keepAccounts(transaction: LedgerTransaction, after: Ledger): void {
  const { usage, reserved, leaseIdsByJob, evictingIds, opportunisticIds } = transaction;
  const isExact = usage !== undefined && indexOf(transaction).hasWholeWatts;
  KEPT.set(after, {
    usage: isExact ? usage : undefined,
    reserved,
    leaseIdsByJob: transaction.isLeaseLate === true ? undefined : leaseIdsByJob,
    evictingIds,
    opportunisticIds,
    formerBook: transaction.book ?? transaction.formerBook,
    places: transaction.places,
    byteShares: transaction.byteShares,
    size: transaction.size,
  });
}
