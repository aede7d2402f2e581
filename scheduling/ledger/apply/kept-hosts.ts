/**
 * @file A gang that has lost a host keeps its other GPUs for a time, while a replacement is found (rules 6; docs/decisions/0123).
 *
 * With the end of its lease the job says for how long. What is lost the ledger knows by itself: whatever lies on hosts where nothing new may start,
 * or that have not confirmed that nothing runs there, and drained GPUs. The rest is reserved for the job from that very event on, so nobody comes between. It is taken
 * out of backfill reservations, whose jobs waited for that lease's end: the gang goes on, and so would its lease. What other reservations, or the terms of
 * opportunistic use, promise to others is given up.
 * A fleet that has lost its ledger hears of it from the job, and believes it while it recovers (rules 8; docs/decisions/0169): of what the job names it
 * keeps what no lease has. A host whose agent has not spoken yet may stay for `RETURN_MS`.
 * A job whose run is reset meanwhile has `RETURN_MS` to ask under its new run (rules 10; docs/decisions/0198).
 * The reservation ends when the job is granted GPUs, ends or withdraws, when it does not ask again within `RETURN_MS`, when an operator holds its queue, and
 * at its time, after an hour at most. A host that can take nothing new any more leaves it.
 * Cost: O(hosts of the lease · reservations). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { JobId } from "../../../domain/values/ids.ts";
import {
  gpuCountOf,
  type HostGpus,
  type Lease,
  type Reservation,
} from "../../../domain/lease/lease.ts";
import type { LedgerTransaction } from "./transaction.ts";
import { fullMask } from "../../../lib/bits.ts";
import { indexOf, leasesOf } from "./transaction-index.ts";
import { setReservation } from "./transaction-leases.ts";
import { isRoomForWord } from "./transaction-size.ts";
import { isRecovering } from "./ledger-recovery.ts";
import { KEPT_AFTER_LOSS_RULES, type Ledger } from "../ledger.ts";
import { withoutDrained } from "../rules/gpu-drains.ts";
import { hostConditionOf } from "../rules/grant-check.ts";
import { holdOf } from "../rules/queue-holds.ts";
import { takenGpus } from "../rules/usage.ts";
import { sharedGpus, withoutGpus } from "../rules/reservation-index.ts";

/** So long after its lease's end a job has to ask again for what is kept for it. */
export const RETURN_MS = 60_000;

/** `lease`: as it was before its end, which the ledger has applied. */
export function keepOthers(transaction: LedgerTransaction, lease: Lease, keepMs: number): void {
  const { jobId, gpus, slots, eviction, opportunistic, state } = lease;
  if (keepMs === 0 || state === "vacating" || slots !== undefined || eviction !== undefined) return;
  if (transaction.reservations.has(jobId) || holdOf(transaction.holds, lease) !== undefined) return;
  const open = transaction.leases.get(lease.id)?.vacatingHosts ?? [];
  let kept: readonly HostGpus[] = withoutDrained(
    gpus.filter(({ host }) => isUsable(transaction, host) && !open.includes(host)),
    transaction.hosts,
  );
  if (opportunistic !== undefined) kept = withoutGpus(kept, opportunistic.gpus);
  reserve(transaction, jobId, { kept, keepMs });
}

interface Keeping {
  readonly kept: readonly HostGpus[];
  readonly keepMs: number;
}

function reserve(
  transaction: LedgerTransaction,
  jobId: JobId,
  { kept: wanted, keepMs }: Keeping,
): void {
  let kept = wanted;
  for (const other of transaction.reservations.values())
    if (other.kind !== "backfill") kept = withoutGpus(kept, other.gpus);
  if (kept.length === 0 || !isRoomForWord(transaction, [jobId, kept])) return;
  for (const other of [...transaction.reservations.values()]) leave(transaction, other, kept);
  const sinceMs = transaction.nowMs;
  setReservation(transaction, jobId, {
    jobId,
    gpus: kept,
    kind: "replace",
    sinceMs,
    untilMs: sinceMs + keepMs,
  });
}

/** What a job says was kept for it, and for how long still: believed by a fleet that has lost its ledger, where nobody has said to run there. */
export function keepAgain(
  transaction: LedgerTransaction,
  jobId: JobId,
  { kept, keepMs }: Keeping,
): void {
  if (keepMs === 0 || !isRecovering(transaction, transaction.nowMs)) return;
  const isRunning = leasesOf(transaction, jobId).some(({ state }) => state !== "vacating");
  if (isRunning || transaction.reservations.has(jobId)) return;
  const { places } = indexOf(transaction);
  let free: readonly HostGpus[] = kept.flatMap(({ host, mask }) => {
    const place = places.get(host);
    const usable = place === undefined ? 0 : mask & fullMask(place.host.gpuCount);
    const isOpen = usable !== 0 && isUsable(transaction, host, transaction.nowMs);
    return isOpen ? [{ host, mask: usable }] : [];
  });
  free = withoutDrained(free, transaction.hosts);
  for (const lease of transaction.leases.values()) free = withoutGpus(free, takenGpus(lease));
  reserve(transaction, jobId, { kept: free, keepMs });
}

function leave(
  transaction: LedgerTransaction,
  other: Reservation,
  taken: readonly HostGpus[],
): void {
  if (sharedGpus(other.gpus, taken).length === 0) return;
  const { usableUntilMs: _void, ...rest } = other;
  const gpus = withoutGpus(other.gpus, taken);
  setReservation(transaction, other.jobId, gpus.length === 0 ? undefined : { ...rest, gpus });
}

/** The job has ended, or asks for nothing any more: nothing is kept for it. */
export function endKept(transaction: LedgerTransaction, job: JobId): void {
  if (transaction.reservations.get(job)?.kind === "replace")
    setReservation(transaction, job, undefined);
}

/** From these rules on a job may be reset without losing what is kept for it. */
const KEPT_OVER_RESET_RULES = 10;

/** The job's run was reset: its new run has as long to ask again as the former one had after the loss. */
export function awaitReturn(transaction: LedgerTransaction, job: JobId): void {
  if (transaction.before.applyVersion < KEPT_OVER_RESET_RULES) return endKept(transaction, job);
  const reservation = transaction.reservations.get(job);
  if (reservation?.kind === "replace")
    setReservation(transaction, job, { ...reservation, sinceMs: transaction.nowMs });
}

/** Whether what is kept for a job that has lost a host has come to its end. */
export function isKeepingOver(
  { requests, holds, nowMs }: LedgerTransaction,
  { jobId, sinceMs, untilMs = sinceMs }: Reservation,
): boolean {
  const request = requests.get(jobId);
  if (nowMs >= untilMs) return true;
  return request === undefined
    ? nowMs >= sinceMs + RETURN_MS
    : holdOf(holds, request) !== undefined;
}

/** Without the hosts and the GPUs that can take nothing new any more. */
export function keepUsable(transaction: LedgerTransaction, reservation: Reservation): void {
  const { jobId, gpus: all, sinceMs } = reservation;
  const gpus = withoutDrained(
    all.filter(({ host }) => isUsable(transaction, host, sinceMs)),
    transaction.hosts,
  );
  if (gpuCountOf(gpus) === gpuCountOf(all)) return;
  setReservation(transaction, jobId, gpus.length === 0 ? undefined : { ...reservation, gpus });
}

/** `keptSinceMs`: of GPUs that are kept already, whose host may have yet to speak. */
function isUsable(
  transaction: LedgerTransaction,
  host: HostGpus["host"],
  keptSinceMs?: number,
): boolean {
  if (!indexOf(transaction).places.has(host)) return false;
  const condition = hostConditionOf(transaction.hosts.get(host));
  return (
    condition === undefined ||
    (condition === "agentless" && keptSinceMs !== undefined && isAwaited(transaction, keptSinceMs))
  );
}

/** Whether some of these hosts have yet to speak after the loss of the ledger. */
export const areAgentsAwaited = (
  { recovery, hosts }: Pick<Ledger, "recovery" | "hosts">,
  { gpus }: Reservation,
): boolean =>
  recovery !== undefined &&
  gpus.some(({ host }) => hostConditionOf(hosts.get(host)) === "agentless");

/** Whether agents that have not spoken since the loss of the ledger may do so still. */
const isAwaited = (transaction: LedgerTransaction, sinceMs: number): boolean =>
  transaction.before.applyVersion >= KEPT_AFTER_LOSS_RULES &&
  isRecovering(transaction, transaction.nowMs) &&
  transaction.nowMs < sinceMs + RETURN_MS;
