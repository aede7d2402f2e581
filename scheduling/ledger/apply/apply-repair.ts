/**
 * @file Frees what jobs and agents have denied in a repair, and keeps a note of it.
 *
 * A lease that its job denies turns vacating, unless its grant has yet to be delivered, and is free on the hosts that deny it too; a host that
 * did not answer keeps its GPUs. A request goes when its run is over, a reservation when its job neither waits nor holds anything.
 * Cost: O(things named). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { JobId } from "../../../domain/values/ids.ts";
import { isBounded, isUnheard, type LedgerEvent, type RepairNote } from "../ledger.ts";
import { applyAudited } from "./apply-inbox.ts";
import type { LedgerTransaction } from "./transaction.ts";
import { leasesOf } from "./transaction-index.ts";
import { confirmVacated, setReservation, vacate } from "./transaction-leases.ts";

/** Notes that are kept, and things that each names. */
const MAX_NOTES = 5;
const MAX_NAMED = 20;
const MAX_NAME = 100;

export function applyRepair(
  transaction: LedgerTransaction,
  event: Extract<LedgerEvent, { readonly kind: "repaired" }>,
): void {
  const { applyVersion } = transaction.before;
  if (!isBounded(transaction.before)) return;
  const { leases, requests, reservations, denied, closed } = event;
  const isMeant = new Set(leases);
  for (const { lease: id, hosts } of denied) {
    const lease = transaction.leases.get(id);
    if (lease === undefined || !isMeant.has(id)) continue;
    if (isUnheard({ applyVersion, outbox: transaction.outbox }, id)) continue;
    if (lease.state !== "vacating") vacate(transaction, lease, "all");
    const vacating = transaction.leases.get(id);
    if (vacating !== undefined) confirmVacated(transaction, vacating, hosts);
  }
  applyAudited(
    transaction,
    closed.filter(({ jobId }) => requests.includes(jobId)),
  );
  for (const job of reservations)
    if (isForNobody(transaction, job)) setReservation(transaction, job, undefined);
  const things = [
    ...leases.map((id) => ({ name: id as string, isLeft: transaction.leases.has(id) })),
    ...requests.map((job) => ({
      name: `request of ${job}`,
      isLeft: transaction.requests.has(job),
    })),
    ...reservations.map((job) => ({
      name: `reservation of ${job}`,
      isLeft: transaction.reservations.has(job),
    })),
  ];
  const freed = things.filter(({ isLeft }) => !isLeft).map(({ name }) => name);
  const left = things.filter(({ isLeft }) => isLeft).map(({ name }) => name);
  const note: RepairNote = {
    key: event.key.slice(0, MAX_NAME),
    by: event.by.slice(0, MAX_NAME),
    atMs: transaction.nowMs,
    freed: shortened(freed),
    left: shortened(left),
    freedCount: freed.length,
    leftCount: left.length,
  };
  transaction.repairs = [...(transaction.repairs ?? []), note].slice(-MAX_NOTES);
  transaction.isChanged = true;
}

const shortened = (names: readonly string[]): readonly string[] =>
  names.slice(0, MAX_NAMED).map((name) => name.slice(0, MAX_NAME));

/** Whether the job neither waits nor holds anything. */
const isForNobody = (transaction: LedgerTransaction, job: JobId): boolean =>
  !transaction.requests.has(job) && leasesOf(transaction, job).length === 0;
