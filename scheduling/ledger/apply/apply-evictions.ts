/**
 * @file Applies evictions: how they begin and end, when they are withdrawn or revoked, and when reservations (apply-reservations.ts) end.
 *
 * - A reservation ends when its job is granted GPUs, when no part of the job is left that could use it, or when nothing new may start on
 *   one of its hosts. A `keep` outlives the lease that its job gives up: after the lease's end the job has `RETURN_MS` to request again.
 *   How a `replace` begins and ends is in kept-hosts.ts.
 * - An eviction names a lease and a beneficiary, which must have some of the lease's GPUs reserved: no job is evicted before the
 *   beneficiary's placement is found. Until its order is delivered, an eviction is withdrawn as soon as that no longer holds; afterwards it
 *   completes.
 * - A job that runs on the inference headroom may have other jobs evicted too, for as many GPUs as it holds, so that the headroom is full
 *   again (`headroom`). The GPUs stay reserved until the last of those leases ends, or the job does, and are then open.
 * - An order that the job does not follow is revoked: the lease turns vacating `graceMs` of its checkpoint and `REVOKE_AFTER_MS` later.
 * - An opportunistic lease (opportunistic-terms.ts) is given up for the job whose reserved GPUs it uses, however short it has run and
 *   whatever the budget, once that job waits for nothing else. Its terms end with the reservation.
 * - A tenant's jobs may cause other tenants no more loss in an hour than the policy's budget. Growth costs the growing job alone.
 *
 * Cost: O(hosts concerned) an item, O(reservations + evictions) an event.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import type { JobId, TenantId } from "../../../domain/values/ids.ts";
import { DEFAULT_PREEMPTION, type Gang, type PreemptionRule } from "../../../domain/job/job.ts";
import {
  gpuCountOf,
  type Eviction,
  type HostGpus,
  type Lease,
  type Reservation,
} from "../../../domain/lease/lease.ts";
import { MAX_PLAN_ITEMS, type EvictItem } from "../../../domain/lease/plan.ts";
import { areAgentsAwaited, isKeepingOver, keepUsable, RETURN_MS } from "./kept-hosts.ts";
import { headroomUserOf, lentGpus, NO_ROOM, overlapOf, TOO_MANY } from "./apply-reservations.ts";
import { noteChange, refuse, type LedgerTransaction } from "./transaction.ts";
import { evictingIn, indexOf, opportunisticIn, reservedIn } from "./transaction-index.ts";
import { putLease, setReservation, vacate } from "./transaction-leases.ts";
import { jsonBytes } from "../size-table.ts";
import { isRoomForWord, noteGrowth } from "./transaction-size.ts";
import { drainedMask } from "../rules/gpu-drains.ts";
import { hostConditionOf, isAcceptableSize, largestAcceptable } from "../rules/grant-check.ts";
import type { EvictionNote, Ledger, LedgerEvent } from "../ledger.ts";
import { usesReservationOf, neededBeside } from "../rules/opportunistic-terms.ts";
import { isSpared } from "../rules/queue-holds.ts";
import { sharedGpus, withoutGpus } from "../rules/reservation-index.ts";

/** Beyond its checkpoint's grace a job has so long to stop before its lease is revoked. */
export const REVOKE_AFTER_MS = 120_000;
/** The span of a budget. */
export const BUDGET_MS = 3_600_000;

export function applyEvict(transaction: LedgerTransaction, items: readonly EvictItem[]): void {
  items.forEach((item, at) => {
    const problem = at < MAX_PLAN_ITEMS ? evictProblem(transaction, item) : TOO_MANY;
    if (problem === undefined && !isRoomForWord(transaction, item))
      refuse(transaction, "LedgerFull", `the eviction of ${item.lease} is refused: ${NO_ROOM}`);
    else if (problem === undefined) evict(transaction, item);
    else
      refuse(
        transaction,
        at < MAX_PLAN_ITEMS ? "NotEvictable" : "EntryTooLarge",
        `the eviction of ${item.lease} for ${item.forJob} is refused: ${problem}`,
      );
  });
}

function evictProblem(transaction: LedgerTransaction, item: EvictItem): string | undefined {
  const { forJob, keep, lostGpuSeconds } = item;
  const lease = transaction.leases.get(item.lease);
  if (lease === undefined || lease.state === "vacating") return "there is no such lease any more";
  const { terms, jobId, gpus } = lease;
  if (terms === undefined) return "nothing is known of what its job agreed to";
  if (lease.isUnconfirmed === true) return "its job has not claimed it yet";
  if (lease.slots !== undefined) return "tasks of a job array are not evicted";
  if (lease.eviction !== undefined) return "it is given up already";
  if (isSpared(transaction.holds, lease)) return "its queue is held, and what runs of it finishes";
  if (!Number.isFinite(lostGpuSeconds) || lostGpuSeconds < 0)
    return `${lostGpuSeconds} GPU-seconds are no loss`;
  const rule = preemptionOf(lease);
  const reservation = transaction.reservations.get(forJob);
  const isCalledIn = reservation !== undefined && isDueBack(transaction, lease, reservation);
  if (!isCalledIn && transaction.nowMs < lease.grantedAtMs + rule.minRuntimeMs)
    return `it is protected for ${rule.minRuntimeMs} ms from its grant on`;
  if (reservation === undefined) return `nothing is reserved for ${forJob}`;
  const size = gpuCountOf(gpus);
  if (forJob === jobId) {
    if (keep !== undefined) return "a job that grows keeps nothing apart";
    if (terms.gang.mayGrow !== true || reservation.kind !== "keep")
      return "it does not ask to grow";
    return gpuCountOf(reservation.gpus) > size ? undefined : "it would not be larger after";
  }
  const isForHeadroom = reservation.kind === "headroom";
  const beneficiary = isForHeadroom
    ? headroomUserOf(transaction, forJob)
    : transaction.requests.get(forJob);
  if (beneficiary === undefined)
    return `${forJob} ${isForHeadroom ? "runs on no latency reserve" : "waits no more"}`;
  if (!rule.isPreemptible) return "its job may not be preempted";
  const freed = sharedGpus(withoutGpus(gpus, keep ?? []), reservation.gpus);
  if (freed.length === 0) return `none of the GPUs that it would free are reserved for ${forJob}`;
  if ("token" in beneficiary && gpuCountOf(freed) > lentGpus(beneficiary))
    return `${forJob} holds ${gpuCountOf(beneficiary.gpus)} GPUs, and for no more are others evicted`;
  if (isCalledIn)
    return keep === undefined ? undefined : "GPUs in opportunistic use are given back whole";
  return (
    keepProblem(transaction, lease, keep) ??
    budgetProblem(transaction, beneficiary.tenant, lostGpuSeconds)
  );
}

/** Whether the lease uses GPUs of this reservation opportunistically, and its job waits for no others. */
function isDueBack(
  transaction: LedgerTransaction,
  lease: Lease,
  reservation: Reservation,
): boolean {
  const request = transaction.requests.get(reservation.jobId);
  const size = gpuCountOf(reservation.gpus);
  return (
    request !== undefined &&
    (reservation.kind === "backfill" || reservation.kind === "preemption") &&
    usesReservationOf(reservation, lease) &&
    largestAcceptable(request, size, transaction.nowMs) === size &&
    neededBeside(reservation, transaction.leases.values()) === 0
  );
}

/** What the lease's job agreed to; its class's rule where it says nothing. */
export const preemptionOf = ({
  class: jobClass,
  terms,
}: Pick<Lease, "class" | "terms">): PreemptionRule =>
  terms?.preemption ?? DEFAULT_PREEMPTION[jobClass];

function keepProblem(
  transaction: LedgerTransaction,
  lease: Lease,
  keep: readonly HostGpus[] | undefined,
): string | undefined {
  if (keep === undefined) return undefined;
  const gang: Gang | undefined = lease.terms?.gang;
  if (!preemptionOf(lease).mayShrink || gang === undefined) return "its job does not shrink";
  const size = gpuCountOf(keep);
  if (withoutGpus(keep, lease.gpus).length > 0 || size === 0 || size >= gpuCountOf(lease.gpus))
    return "what it is to keep is no part of what it has";
  if (!isAcceptableSize(gang, size)) return `${size} GPUs are no acceptable size of its gang`;
  return transaction.reservations.has(lease.jobId) || overlapOf(transaction, keep).length > 0
    ? "the GPUs that it is to keep are reserved for another job"
    : undefined;
}

function budgetProblem(
  transaction: LedgerTransaction,
  tenant: TenantId,
  lost: number,
): string | undefined {
  const budget = (transaction.shape.policy ?? DEFAULT_POLICY).preemptionBudgetGpuSeconds;
  const spent = spentBudget(transaction.evictions, tenant, transaction.nowMs);
  return spent + lost > budget + LOSS_EPSILON
    ? `tenant ${tenant} has caused ${spent} of ${budget} GPU-seconds of loss in an hour; ${lost} more are too many`
    : undefined;
}

/** Losses are sums of floats. */
const LOSS_EPSILON = 1e-6;

/** GPU-seconds that others have lost for jobs of this tenant within the last hour. */
export function spentBudget(
  evictions: readonly EvictionNote[],
  tenant: TenantId,
  nowMs: number,
): number {
  let sum = 0;
  for (const note of evictions) {
    if (note.tenant === tenant && note.atMs > nowMs - BUDGET_MS) sum += note.lostGpuSeconds;
  }
  return sum;
}

function evict(
  transaction: LedgerTransaction,
  { lease: id, forJob, keep, lostGpuSeconds }: EvictItem,
): void {
  const lease = transaction.leases.get(id);
  if (lease === undefined) return;
  const { nowMs } = transaction;
  const eviction: Eviction = { forJob, atMs: nowMs, ...(keep && { keep }), lostGpuSeconds };
  putLease(transaction, { ...lease, eviction });
  noteChange(transaction);
  if (keep !== undefined)
    setReservation(transaction, lease.jobId, {
      jobId: lease.jobId,
      gpus: keep,
      kind: "keep",
      sinceMs: nowMs,
    });
  const reservation = transaction.reservations.get(forJob);
  const borrower =
    reservation?.kind === "headroom" ? headroomUserOf(transaction, forJob) : undefined;
  const beneficiary = borrower ?? transaction.requests.get(forJob);
  if (beneficiary === undefined || forJob === lease.jobId) return;
  if (borrower === undefined) addLoss(transaction, forJob, lostGpuSeconds);
  else {
    const freed = sharedGpus(withoutGpus(lease.gpus, keep ?? []), reservation?.gpus ?? []);
    putLease(transaction, {
      ...borrower,
      headroomGpus: (borrower.headroomGpus ?? 0) + gpuCountOf(freed),
      causedLossGpuSeconds: (borrower.causedLossGpuSeconds ?? 0) + lostGpuSeconds,
    });
  }
  const recent = transaction.evictions.filter(({ atMs }) => atMs > nowMs - BUDGET_MS);
  const note = { atMs: nowMs, tenant: beneficiary.tenant, lostGpuSeconds };
  noteGrowth(transaction, jsonBytes(note));
  transaction.evictions = [...recent, note].sort((a, b) => a.atMs - b.atMs);
}

function addLoss(transaction: LedgerTransaction, job: JobId, lost: number): void {
  const reservation = transaction.reservations.get(job);
  if (reservation === undefined) return;
  const lostGpuSeconds = Math.max(0, (reservation.lostGpuSeconds ?? 0) + lost);
  setReservation(transaction, job, { ...reservation, lostGpuSeconds });
}

/** Reports on orders: a delivered one is past recall; of one whose job is gone the lease is released, or waits for its hosts. */
export function applyEvictionsSent(
  transaction: LedgerTransaction,
  { sent, gone }: Extract<LedgerEvent, { kind: "evictions-sent" }>,
): void {
  for (const id of sent) {
    const lease = transaction.leases.get(id);
    if (lease?.eviction === undefined || lease.eviction.isSent === true) continue;
    putLease(transaction, {
      ...lease,
      eviction: { ...lease.eviction, isSent: true, atMs: transaction.nowMs },
    });
  }
  for (const id of gone) {
    const lease = transaction.leases.get(id);
    if (lease === undefined || lease.state === "vacating") continue;
    vacate(transaction, lease, lease.state === "held" ? "all" : []);
  }
}

/** Revokes the leases whose jobs have not followed their orders in time. */
export function revokeOverdue(transaction: LedgerTransaction): void {
  for (const lease of evictingIn(transaction)) {
    const dueAtMs = revokeAtMs(lease);
    if (dueAtMs !== undefined && dueAtMs <= transaction.nowMs) vacate(transaction, lease, "all");
  }
}

/** When a lease that is to be given up is taken; undefined while its order is not delivered. */
function revokeAtMs(lease: Lease): number | undefined {
  const { state, eviction } = lease;
  if (eviction?.isSent !== true || state === "vacating") return undefined;
  return eviction.atMs + revokeAfterMs(lease);
}

/** How long the job of a lease has to give it up once its order is delivered. */
export const revokeAfterMs = ({ terms }: Pick<Lease, "terms">): number =>
  (terms?.checkpoint?.graceMs ?? 0) + REVOKE_AFTER_MS;

/** When a clock next has to look at reservations and orders; undefined when none runs. */
export function nextReturnAtMs(ledger: Ledger): number | undefined {
  const { reservations, leases, requests } = ledger;
  let nextAtMs = Infinity;
  const stopping = new Set<JobId>();
  for (const lease of leases.values()) {
    if (lease.eviction === undefined || lease.state === "vacating") continue;
    stopping.add(lease.jobId);
    nextAtMs = Math.min(nextAtMs, revokeAtMs(lease) ?? Infinity);
  }
  for (const reservation of reservations?.values() ?? []) {
    const { kind, jobId, sinceMs, untilMs } = reservation;
    const isReturning = kind === "replace" || (kind === "keep" && !stopping.has(jobId));
    const isAwaiting =
      (isReturning && !requests.has(jobId)) ||
      (kind === "replace" && areAgentsAwaited(ledger, reservation));
    if (isAwaiting) nextAtMs = Math.min(nextAtMs, sinceMs + RETURN_MS);
    if (untilMs !== undefined) nextAtMs = Math.min(nextAtMs, untilMs);
  }
  return nextAtMs < Infinity ? nextAtMs : undefined;
}

/**
 * After every event: ends what nobody can use any more, and withdraws the orders for it that were not delivered. Heads see to their
 * hosts in each cycle (reservations.ts); what others were evicted for would wait for ever for a host that has gone.
 */
export function endReservations(transaction: LedgerTransaction, haveHostsChanged: boolean): void {
  if (transaction.reservations.size > 0) {
    if (haveHostsChanged) endUnusable(transaction);
    const stopping = new Set(
      evictingIn(transaction).flatMap(({ state, jobId }) => (state === "vacating" ? [] : [jobId])),
    );
    for (const reservation of [...transaction.reservations.values()]) {
      const { jobId, kind, sinceMs } = reservation;
      if (kind === "replace") {
        if (isKeepingOver(transaction, reservation)) setReservation(transaction, jobId, undefined);
        else if (transaction.recovery !== undefined) keepUsable(transaction, reservation);
        continue;
      }
      const isReturning =
        kind === "keep" && (stopping.has(jobId) || transaction.nowMs < sinceMs + RETURN_MS);
      const isUsed =
        kind === "headroom"
          ? isRefillingHeadroom(transaction, jobId)
          : transaction.requests.has(jobId);
      if (!isReturning && !isUsed) setReservation(transaction, jobId, undefined);
    }
  }
  endOpportunistic(transaction);
  for (const lease of evictingIn(transaction)) {
    const { eviction, jobId, gpus, state } = lease;
    if (eviction === undefined || eviction.isSent === true || state === "vacating") continue;
    const reservation = transaction.reservations.get(eviction.forJob);
    const isOwn = eviction.forJob === jobId;
    const freed = withoutGpus(gpus, eviction.keep ?? []);
    const isWanted = isOwn || sharedGpus(freed, reservation?.gpus ?? []).length > 0;
    const mayFinish = isSpared(transaction.holds, lease);
    if (reservation === undefined || !isWanted || mayFinish) withdraw(transaction, lease, eviction);
  }
}

const isRefillingHeadroom = (transaction: LedgerTransaction, job: JobId): boolean =>
  evictingIn(transaction).some(({ eviction }) => eviction?.forJob === job) &&
  headroomUserOf(transaction, job) !== undefined;

/** Opportunistic use ends with the reservation. */
function endOpportunistic(transaction: LedgerTransaction): void {
  for (const lease of opportunisticIn(transaction)) {
    const { opportunistic, ...rest } = lease;
    const gpus = (opportunistic?.gpus ?? []).flatMap(({ host, mask }) => {
      const left = mask & (reservedIn(transaction).masks.get(host) ?? 0);
      return left === 0 ? [] : [{ host, mask: left }];
    });
    if (gpuCountOf(gpus) === gpuCountOf(opportunistic?.gpus ?? [])) continue;
    putLease(transaction, gpus.length === 0 ? rest : { ...rest, opportunistic: { gpus } });
  }
}

function endUnusable(transaction: LedgerTransaction): void {
  const { places } = indexOf(transaction);
  for (const reservation of [...transaction.reservations.values()]) {
    const { jobId, kind, gpus } = reservation;
    if (kind === "replace") {
      keepUsable(transaction, reservation);
      continue;
    }
    const isUsable = gpus.every(({ host, mask }) => {
      const status = transaction.hosts.get(host);
      const isOpen = places.has(host) && hostConditionOf(status) === undefined;
      return isOpen && (drainedMask(status) & mask) === 0;
    });
    if (kind !== "backfill" && !isUsable) setReservation(transaction, jobId, undefined);
  }
}

function withdraw(transaction: LedgerTransaction, lease: Lease, eviction: Eviction): void {
  const { eviction: _withdrawn, ...rest } = lease;
  const { forJob, atMs, lostGpuSeconds, keep } = eviction;
  putLease(transaction, rest);
  noteChange(transaction);
  if (keep !== undefined) setReservation(transaction, lease.jobId, undefined);
  if (forJob === lease.jobId) return;
  addLoss(transaction, forJob, -lostGpuSeconds);
  const at = transaction.evictions.findIndex(
    (note) => note.atMs === atMs && note.lostGpuSeconds === lostGpuSeconds,
  );
  if (at >= 0) transaction.evictions = transaction.evictions.filter((_note, index) => index !== at);
}
