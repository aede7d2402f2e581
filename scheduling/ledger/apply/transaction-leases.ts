/**
 * @file Changes of leases and reservations in a ledger's transaction: accounts and indexes follow, and the watcher is notified.
 *
 * Cost: O(1) a change, with O(GPUs of the lease) for the indexes.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { HostId, JobId, LeaseId } from "../../../domain/values/ids.ts";
import type { Lease, Reservation } from "../../../domain/lease/lease.ts";
import { addReserved, dropReserved } from "../rules/reservation-index.ts";
import { notesAfter } from "../rules/run-history.ts";
import { noteLease } from "../rules/service-account.ts";
import { sizeLease, sizeReservation } from "../size-account.ts";
import { countLeaseDemand, settledBook } from "./transaction-accounts.ts";
import { keptLease } from "../kept-shape.ts";
import { isBounded, LATER_TASKS_RULES } from "../ledger.ts";
import { letReturn } from "./transaction-intake.ts";
import { reindexLease } from "./transaction-index.ts";
import { putGrant } from "./transaction-size.ts";
import { noteChange, type LedgerTransaction } from "./transaction.ts";

export function putLease(transaction: LedgerTransaction, lease: Lease): void {
  setLease(transaction, lease.id, keptLease(lease));
  transaction.isChanged = true;
}

/** The one place in which leases change. */
function setLease(transaction: LedgerTransaction, id: LeaseId, lease: Lease | undefined): void {
  const leases = transaction.drafts.leases.write();
  const book = settledBook(transaction);
  const former = leases.get(id);
  countLeaseDemand(transaction, former, lease);
  noteLease(book, former, lease);
  if (lease === undefined) leases.delete(id);
  else leases.set(id, lease);
  if (transaction.size !== undefined) sizeLease(transaction.size, { before: former, after: lease });
  reindexLease(transaction, former, lease);
  transaction.watcher.lease?.(former, lease);
}

/** Replaces the job's former reservation, as the newest one; undefined ends it. */
export function setReservation(
  transaction: LedgerTransaction,
  job: JobId,
  after: Reservation | undefined,
): void {
  const former = transaction.reservations.get(job);
  if (former === undefined && after === undefined) return;
  if (transaction.size !== undefined) sizeReservation(transaction.size, { before: former, after });
  const reservations = transaction.drafts.reservations.write();
  reservations.delete(job);
  if (after !== undefined) reservations.set(job, after);
  if (transaction.reserved !== undefined) {
    if (former !== undefined) dropReserved(transaction.reserved, former);
    if (after !== undefined) addReserved(transaction.reserved, after);
  }
  transaction.watcher.reservation?.(former, after);
  noteChange(transaction);
}

/**
 * The lease's job is gone. Its GPUs stay in use on the unconfirmed hosts, less those that have confirmed already; with none left the
 * lease is released. The set of hosts that a vacating lease waits for only shrinks, so the order of the facts does not matter.
 */
export function vacate(
  transaction: LedgerTransaction,
  lease: Lease,
  unconfirmed: readonly HostId[] | "all",
): void {
  const { vacatedHosts = [], vacatingHosts, isUnconfirmed: _settled, ...rest } = lease;
  const confirmed = vacatedHosts.filter((host) => isFinal(transaction, lease, host));
  const open =
    vacatingHosts ?? lease.gpus.map(({ host }) => host).filter((host) => !confirmed.includes(host));
  const left = unconfirmed === "all" ? open : open.filter((host) => unconfirmed.includes(host));
  if (lease.state === "vacating" && left.length === open.length) return;
  putGrant(transaction, lease, undefined);
  if (left.length > 0) putLease(transaction, { ...rest, state: "vacating", vacatingHosts: left });
  else setLease(transaction, lease.id, undefined);
  if (lease.state !== "vacating") {
    const isPreempted = lease.eviction !== undefined;
    if (isPreempted && isBounded(transaction.before)) letReturn(transaction, lease);
    awaitReturn(transaction, lease);
    transaction.runs = notesAfter(transaction.runs, lease, {
      unconfirmed,
      nowMs: transaction.nowMs,
    });
  }
  noteChange(transaction);
}

/**
 * Whether what the host has confirmed before the lease's end still holds. An array starts task after task under one lease, and the host's word was of
 * one of them; that of a fence is of all.
 */
const isFinal = ({ before, hosts }: LedgerTransaction, { slots }: Lease, host: HostId): boolean =>
  slots === undefined ||
  before.applyVersion < LATER_TASKS_RULES ||
  hosts.get(host)?.isFenced === true;

/** A job that stopped to continue on other GPUs has a limited time from now to request them. */
function awaitReturn(transaction: LedgerTransaction, { jobId, eviction }: Lease): void {
  const kept = transaction.reservations.get(jobId);
  if (eviction === undefined || kept?.kind !== "keep") return;
  setReservation(transaction, jobId, { ...kept, sinceMs: transaction.nowMs });
}

/** These hosts have confirmed that nothing runs under the lease; kept in the lease while its end is still to come. */
export function confirmVacated(
  transaction: LedgerTransaction,
  lease: Lease,
  hosts: readonly HostId[],
): void {
  const { vacatingHosts, vacatedHosts = [] } = lease;
  if (vacatingHosts !== undefined) {
    vacate(
      transaction,
      lease,
      vacatingHosts.filter((host) => !hosts.includes(host)),
    );
    return;
  }
  const news = lease.gpus
    .map(({ host }) => host)
    .filter((host) => hosts.includes(host) && !vacatedHosts.includes(host));
  if (news.length > 0)
    putLease(transaction, { ...lease, vacatedHosts: [...vacatedHosts, ...news] });
}

/** What these hosts have confirmed of a lease that is still held does not count any more. */
export function recallVacated(
  transaction: LedgerTransaction,
  lease: Lease,
  hosts: ReadonlySet<HostId>,
): void {
  const { vacatedHosts = [], ...rest } = lease;
  const left = vacatedHosts.filter((host) => !hosts.has(host));
  if (left.length === vacatedHosts.length) return;
  putLease(transaction, left.length === 0 ? rest : { ...rest, vacatedHosts: left });
}
