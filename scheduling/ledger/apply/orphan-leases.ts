/**
 * @file Leases that the ledger does not know but an agent or a job reports: an agent runs them, or a job claims them.
 *
 * A ledger is lost when its fleet was terminated, and a wrong fence forgets runs that continue. A run that an agent reports becomes an
 * unconfirmed lease on that host, so that no other job gets the GPUs; its job is asked and answers `assert` or `end`. A job's claim
 * is taken in whole, if the lease is unconfirmed or the fleet recovers: otherwise a lease that the ledger lacks has ended, and the
 * claim is disowned; so has one that a recovering ledger gave itself (rules 10). GPUs of another lease are never taken: there the claim is disowned, and the higher token on the host keeps order. A
 * lease of a run that its job has left behind is vacated at once. New tokens are above every token ever reported.
 * Cost: O(leases) for each new lease. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { byCodeUnit, type HostId } from "../../../domain/values/ids.ts";
import type { HostGpus, Lease, LeaseFact } from "../../../domain/lease/lease.ts";
import { noteChange, type LedgerTransaction } from "./transaction.ts";
import { indexOf, leasesOf } from "./transaction-index.ts";
import { putLease, recallVacated } from "./transaction-leases.ts";
import { isRoomForWord } from "./transaction-size.ts";
import { dropRequest } from "./transaction-requests.ts";
import { takenGpus } from "../rules/usage.ts";
import { isBounded } from "../ledger.ts";
import { OWN_TOKENS_RULES } from "../upgrade.ts";
import { isOwnToken, isRecovering } from "./ledger-recovery.ts";

/** A host says that it runs this lease. */
export function adoptLease(transaction: LedgerTransaction, fact: LeaseFact, host: HostId): void {
  const known = transaction.leases.get(fact.id);
  const part = fact.gpus.find((gpus) => gpus.host === host);
  if (part === undefined) return;
  if (known === undefined) {
    if (!isFree(transaction, fact, [part]) || !isRoomForWord(transaction, fact)) return;
    if (isLeftBehind(transaction, fact))
      insertLease(transaction, { ...fact, gpus: [part], state: "vacating", vacatingHosts: [host] });
    else {
      insertLease(transaction, { ...fact, gpus: [part], state: "held", isUnconfirmed: true });
      dropAnswered(transaction, fact);
    }
    return;
  }
  if (known.jobId !== fact.jobId || known.runId !== fact.runId) return;
  const isOurs = known.gpus.some((gpus) => gpus.host === host);
  if (isOurs) {
    // Whoever vouched that nothing runs there was wrong.
    recallVacated(transaction, known, new Set([host]));
    return;
  }
  if (known.isUnconfirmed !== true || !isRoomForWord(transaction, part)) return;
  if (isFree(transaction, fact, [part]))
    putLease(transaction, { ...known, gpus: sorted([...known.gpus, part]) });
}

/** A job says that it runs on this lease. */
export function assertLease(transaction: LedgerTransaction, fact: LeaseFact): void {
  const known = transaction.leases.get(fact.id);
  if (known !== undefined && known.isUnconfirmed !== true) {
    if (known.jobId !== fact.jobId) transaction.orphaned.push(fact);
    return;
  }
  const isKnownOfOther =
    known !== undefined && (known.jobId !== fact.jobId || known.runId !== fact.runId);
  if (
    isLeftBehind(transaction, fact) ||
    isKnownOfOther ||
    !isFree(transaction, fact, fact.gpus) ||
    (known === undefined && isEnded(transaction, fact)) ||
    !isRoomForWord(transaction, fact)
  ) {
    transaction.orphaned.push(fact);
    return;
  }
  const { isUnconfirmed: _settled, ...rest } = known ?? { ...fact, state: "held" as const };
  insertLease(transaction, { ...rest, gpus: fact.gpus, state: "held" });
  dropAnswered(transaction, fact);
}

/** Whether a lease that the ledger lacks has ended, because it lacks no other, or has given that one itself. */
const isEnded = ({ before, recovery, nowMs }: LedgerTransaction, { token }: LeaseFact): boolean =>
  isBounded(before) &&
  (!isRecovering({ recovery }, nowMs) ||
    (before.applyVersion >= OWN_TOKENS_RULES && isOwnToken({ recovery }, token)));

/** Another run of the job is in force. */
function isLeftBehind(transaction: LedgerTransaction, { jobId, runId }: LeaseFact): boolean {
  const request = transaction.requests.get(jobId);
  if (request !== undefined && request.runId !== runId) return true;
  return leasesOf(transaction, jobId).some(
    (lease) => lease.runId !== runId && lease.state !== "vacating",
  );
}

/** The request that this lease has answered is a late copy; what an array still wants waits on under the same number. */
function dropAnswered(transaction: LedgerTransaction, { jobId, runId, seq }: LeaseFact): void {
  const request = transaction.requests.get(jobId);
  if (request?.runId !== runId) return;
  const answeredUpTo = request.slots === undefined ? seq : seq - 1;
  if (request.seq <= answeredUpTo) dropRequest(transaction, jobId);
}

/** Leases lie in the order of their tokens. */
function insertLease(transaction: LedgerTransaction, lease: Lease): void {
  transaction.nextToken = Math.max(transaction.nextToken, lease.token + 1);
  putLease(transaction, lease);
  const later = [...transaction.leases.values()].filter((other) => other.token > lease.token);
  // The same leases, only behind the new one.
  const leases = transaction.drafts.leases.write();
  for (const other of later) {
    leases.delete(other.id);
    leases.set(other.id, other);
  }
  if (later.length > 0) transaction.isLeaseLate = true;
  noteChange(transaction);
}

/** Whether no other lease has any of the GPUs, and the fleet has the hosts. */
function isFree(
  transaction: LedgerTransaction,
  fact: LeaseFact,
  gpus: readonly HostGpus[],
): boolean {
  const { places } = indexOf(transaction);
  if (gpus.some(({ host }) => !places.has(host))) return false;
  for (const lease of transaction.leases.values()) {
    if (lease.id === fact.id) continue;
    for (const { host, mask } of takenGpus(lease)) {
      if (gpus.some((part) => part.host === host && (part.mask & mask) !== 0)) return false;
    }
  }
  return true;
}

const sorted = (gpus: readonly HostGpus[]): readonly HostGpus[] =>
  [...gpus].sort((a, b) => byCodeUnit(a.host, b.host));
