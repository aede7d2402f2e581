/**
 * @file What evictions change: how they begin, when they are withdrawn or revoked; and when reservations (apply-reserve.ts) end by
 * themselves.
 *
 * - A reservation ends when its job is granted anything, when nothing of the job is left that could use it, or when nothing new may
 *   start on one of its hosts. `keep` outlives the lease that its job gives up: from the lease's end on, the job has `RETURN_MS`
 *   to ask again.
 * - An eviction names a lease and the job that gets the GPUs, which must have some of them reserved: so nobody is evicted for a job
 *   whose place was not found first. Until its order is delivered it is withdrawn as soon as that is no longer so; then it completes.
 * - Who runs on the latency reserve may have others evicted too, for as many GPUs as it holds, so that the reserve is full again (`bridge`):
 *   they are set apart until the last of those leases is over, or the job is, and then open.
 * - An order that is not followed is revoked: `graceMs` of its checkpoint and `REVOKE_AFTER_MS` later the lease turns vacating.
 * - A lease on loan (loan-terms.ts) is given up for the job that lent it, however short it has run and whatever the budget says, once
 *   that is all that the job still waits for. The loan ends with the reservation.
 * - A tenant's jobs may cause others to lose no more in an hour than the policy's budget. Growing costs nobody but the job itself.
 *
 * Part of the constitution: a change needs a higher `APPLY_VERSION`.
 * Cost: O(hosts concerned) an item, O(reservations + evictions) an event.
 */

import { DEFAULT_POLICY } from "../domain/fleet.ts";
import type { JobId, TenantId } from "../domain/ids.ts";
import { DEFAULT_PREEMPTION, type Gang, type PreemptionRule } from "../domain/job.ts";
import {
  gpuCountOf,
  type Eviction,
  type HostGpus,
  type Lease,
  type Reservation,
} from "../domain/lease.ts";
import { MAX_PLAN_ITEMS, type EvictItem } from "../domain/plan.ts";
import { borrowerOf, lentGpus, overlapOf, TOO_MANY } from "./apply-reserve.ts";
import {
  evictingIn,
  indexOf,
  lentIn,
  noteChange,
  putLease,
  refuse,
  reservedIn,
  setReservation,
  vacate,
  type Draft,
} from "./draft.ts";
import { hindranceOf, isAcceptableSize, largestAcceptable } from "./feasibility.ts";
import type { EvictionNote, Ledger, LedgerEvent } from "./ledger.ts";
import { isOnLoanFrom, neededBeside } from "./loan-terms.ts";
import { sharedGpus, withoutGpus } from "./reserved.ts";

/** So long after its lease's end a job's `keep` waits for it to ask again. */
export const RETURN_MS = 60_000;
/** Beyond its checkpoint's grace a job has so long to stop before its lease is revoked. */
export const REVOKE_AFTER_MS = 120_000;
/** The span of a budget. */
export const BUDGET_MS = 3_600_000;

export function applyEvict(draft: Draft, items: readonly EvictItem[]): void {
  items.forEach((item, at) => {
    const problem = at < MAX_PLAN_ITEMS ? evictProblem(draft, item) : TOO_MANY;
    if (problem === undefined) evict(draft, item);
    else
      refuse(
        draft,
        at < MAX_PLAN_ITEMS ? "NotEvictable" : "EntryTooLarge",
        `the eviction of ${item.lease} for ${item.forJob} is refused: ${problem}`,
      );
  });
}

function evictProblem(draft: Draft, item: EvictItem): string | undefined {
  const { forJob, keep, lostGpuSeconds } = item;
  const lease = draft.leases.get(item.lease);
  if (lease === undefined || lease.state === "vacating") return "there is no such lease any more";
  const { terms, jobId, gpus } = lease;
  if (terms === undefined) return "nothing is known of what its job agreed to";
  if (lease.isDoubted === true) return "its job has not claimed it yet";
  if (lease.slots !== undefined) return "tasks of a job array are not evicted";
  if (lease.eviction !== undefined) return "it is given up already";
  if (!Number.isFinite(lostGpuSeconds) || lostGpuSeconds < 0)
    return `${lostGpuSeconds} GPU-seconds are no loss`;
  const rule = preemptionOf(lease);
  const reservation = draft.reservations.get(forJob);
  const isCalledIn = reservation !== undefined && isDueBack(draft, lease, reservation);
  if (!isCalledIn && draft.nowMs < lease.grantedAtMs + rule.minRuntimeMs)
    return `it is protected for ${rule.minRuntimeMs} ms from its grant on`;
  if (reservation === undefined) return `nothing is reserved for ${forJob}`;
  const size = gpuCountOf(gpus);
  if (forJob === jobId) {
    if (keep !== undefined) return "a job that grows keeps nothing apart";
    if (terms.gang.mayGrow !== true || reservation.kind !== "keep")
      return "it does not ask to grow";
    return gpuCountOf(reservation.gpus) > size ? undefined : "it would not be larger after";
  }
  const isBridge = reservation.kind === "bridge";
  const beneficiary = isBridge ? borrowerOf(draft, forJob) : draft.requests.get(forJob);
  if (beneficiary === undefined)
    return `${forJob} ${isBridge ? "runs on no latency reserve" : "waits no more"}`;
  if (!rule.isPreemptible) return "its job may not be preempted";
  const freed = sharedGpus(withoutGpus(gpus, keep ?? []), reservation.gpus);
  if (freed.length === 0) return `none of the GPUs that it would free are reserved for ${forJob}`;
  if ("token" in beneficiary && gpuCountOf(freed) > lentGpus(beneficiary))
    return `${forJob} holds ${gpuCountOf(beneficiary.gpus)} GPUs, and for no more are others evicted`;
  if (isCalledIn) return keep === undefined ? undefined : "what is on loan is given back whole";
  return (
    keepProblem(draft, lease, keep) ?? budgetProblem(draft, beneficiary.tenant, lostGpuSeconds)
  );
}

/** Whether it is on loan from the job for which that is reserved, and that is all that the job still waits for. */
function isDueBack(draft: Draft, lease: Lease, reservation: Reservation): boolean {
  const request = draft.requests.get(reservation.jobId);
  const size = gpuCountOf(reservation.gpus);
  return (
    request !== undefined &&
    (reservation.kind === "head" || reservation.kind === "preemption") &&
    isOnLoanFrom(reservation, lease) &&
    largestAcceptable(request, size, draft.nowMs) === size &&
    neededBeside(reservation, draft.leases.values()) === 0
  );
}

/** What the lease's job agreed to; its class's rule where it says nothing. */
export const preemptionOf = ({
  class: jobClass,
  terms,
}: Pick<Lease, "class" | "terms">): PreemptionRule =>
  terms?.preemption ?? DEFAULT_PREEMPTION[jobClass];

function keepProblem(
  draft: Draft,
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
  return draft.reservations.has(lease.jobId) || overlapOf(draft, keep).length > 0
    ? "what it is to keep is set apart for another job"
    : undefined;
}

function budgetProblem(draft: Draft, tenant: TenantId, lost: number): string | undefined {
  const budget = (draft.shape.policy ?? DEFAULT_POLICY).preemptionBudgetGpuSeconds;
  const spent = spentBudget(draft.evictions, tenant, draft.nowMs);
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

function evict(draft: Draft, { lease: id, forJob, keep, lostGpuSeconds }: EvictItem): void {
  const lease = draft.leases.get(id);
  if (lease === undefined) return;
  const { nowMs } = draft;
  const eviction: Eviction = { forJob, atMs: nowMs, ...(keep && { keep }), lostGpuSeconds };
  putLease(draft, { ...lease, eviction });
  noteChange(draft);
  if (keep !== undefined)
    setReservation(draft, lease.jobId, {
      jobId: lease.jobId,
      gpus: keep,
      kind: "keep",
      sinceMs: nowMs,
    });
  const reservation = draft.reservations.get(forJob);
  const borrower = reservation?.kind === "bridge" ? borrowerOf(draft, forJob) : undefined;
  const beneficiary = borrower ?? draft.requests.get(forJob);
  if (beneficiary === undefined || forJob === lease.jobId) return;
  if (borrower === undefined) addLoss(draft, forJob, lostGpuSeconds);
  else {
    const freed = sharedGpus(withoutGpus(lease.gpus, keep ?? []), reservation?.gpus ?? []);
    putLease(draft, {
      ...borrower,
      bridgedGpus: (borrower.bridgedGpus ?? 0) + gpuCountOf(freed),
      causedLossGpuSeconds: (borrower.causedLossGpuSeconds ?? 0) + lostGpuSeconds,
    });
  }
  const recent = draft.evictions.filter(({ atMs }) => atMs > nowMs - BUDGET_MS);
  const note = { atMs: nowMs, tenant: beneficiary.tenant, lostGpuSeconds };
  draft.evictions = [...recent, note].sort((a, b) => a.atMs - b.atMs);
}

function addLoss(draft: Draft, job: JobId, lost: number): void {
  const reservation = draft.reservations.get(job);
  if (reservation === undefined) return;
  const lostGpuSeconds = Math.max(0, (reservation.lostGpuSeconds ?? 0) + lost);
  setReservation(draft, job, { ...reservation, lostGpuSeconds });
}

/** Reports on orders: a delivered one is past recall; of one whose job is gone the lease is released, or waits for its hosts. */
export function applyEvictionsSent(
  draft: Draft,
  { sent, gone }: Extract<LedgerEvent, { kind: "evictions-sent" }>,
): void {
  for (const id of sent) {
    const lease = draft.leases.get(id);
    if (lease?.eviction === undefined || lease.eviction.isSent === true) continue;
    putLease(draft, { ...lease, eviction: { ...lease.eviction, isSent: true, atMs: draft.nowMs } });
  }
  for (const id of gone) {
    const lease = draft.leases.get(id);
    if (lease === undefined || lease.state === "vacating") continue;
    vacate(draft, lease, lease.state === "held" ? "all" : []);
  }
}

/** Revokes the leases whose jobs have not followed their orders in time. */
export function revokeOverdue(draft: Draft): void {
  for (const lease of evictingIn(draft)) {
    const dueAtMs = revokeAtMs(lease);
    if (dueAtMs !== undefined && dueAtMs <= draft.nowMs) vacate(draft, lease, "all");
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
export function nextReturnAtMs({ reservations, leases, requests }: Ledger): number | undefined {
  let nextAtMs = Infinity;
  const stopping = new Set<JobId>();
  for (const lease of leases.values()) {
    if (lease.eviction === undefined || lease.state === "vacating") continue;
    stopping.add(lease.jobId);
    nextAtMs = Math.min(nextAtMs, revokeAtMs(lease) ?? Infinity);
  }
  for (const { kind, jobId, sinceMs } of reservations?.values() ?? []) {
    if (kind === "keep" && !stopping.has(jobId) && !requests.has(jobId))
      nextAtMs = Math.min(nextAtMs, sinceMs + RETURN_MS);
  }
  return nextAtMs < Infinity ? nextAtMs : undefined;
}

/**
 * After every event: ends what nobody can use any more, and withdraws the orders for it that were not delivered. Heads see to their
 * hosts in each cycle (heads.ts); what others were evicted for would wait for ever for a host that has gone.
 */
export function endReservations(draft: Draft, haveHostsChanged: boolean): void {
  if (draft.reservations.size > 0) {
    if (haveHostsChanged) endUnusable(draft);
    const stopping = new Set(
      evictingIn(draft).flatMap(({ state, jobId }) => (state === "vacating" ? [] : [jobId])),
    );
    for (const { jobId, kind, sinceMs } of [...draft.reservations.values()]) {
      const isReturning =
        kind === "keep" && (stopping.has(jobId) || draft.nowMs < sinceMs + RETURN_MS);
      const isUsed = kind === "bridge" ? isBridging(draft, jobId) : draft.requests.has(jobId);
      if (!isReturning && !isUsed) setReservation(draft, jobId, undefined);
    }
  }
  endLoans(draft);
  for (const lease of evictingIn(draft)) {
    const { eviction, jobId, gpus, state } = lease;
    if (eviction === undefined || eviction.isSent === true || state === "vacating") continue;
    const reservation = draft.reservations.get(eviction.forJob);
    const isOwn = eviction.forJob === jobId;
    const freed = withoutGpus(gpus, eviction.keep ?? []);
    const isWanted = isOwn || sharedGpus(freed, reservation?.gpus ?? []).length > 0;
    if (reservation === undefined || !isWanted) withdraw(draft, lease, eviction);
  }
}

const isBridging = (draft: Draft, job: JobId): boolean =>
  evictingIn(draft).some(({ eviction }) => eviction?.forJob === job) &&
  borrowerOf(draft, job) !== undefined;

/** What is set apart for nobody any more was lent by nobody. */
function endLoans(draft: Draft): void {
  for (const lease of lentIn(draft)) {
    const { loan, ...rest } = lease;
    const gpus = (loan?.gpus ?? []).flatMap(({ host, mask }) => {
      const left = mask & (reservedIn(draft).masks.get(host) ?? 0);
      return left === 0 ? [] : [{ host, mask: left }];
    });
    if (gpuCountOf(gpus) === gpuCountOf(loan?.gpus ?? [])) continue;
    putLease(draft, gpus.length === 0 ? rest : { ...rest, loan: { gpus } });
  }
}

function endUnusable(draft: Draft): void {
  const { places } = indexOf(draft);
  for (const { jobId, kind, gpus } of [...draft.reservations.values()]) {
    const isUsable = gpus.every(
      ({ host }) => places.has(host) && hindranceOf(draft.hosts.get(host)) === undefined,
    );
    if (kind !== "head" && !isUsable) setReservation(draft, jobId, undefined);
  }
}

function withdraw(draft: Draft, lease: Lease, eviction: Eviction): void {
  const { eviction: _withdrawn, ...rest } = lease;
  const { forJob, atMs, lostGpuSeconds, keep } = eviction;
  putLease(draft, rest);
  noteChange(draft);
  if (keep !== undefined) setReservation(draft, lease.jobId, undefined);
  if (forJob === lease.jobId) return;
  addLoss(draft, forJob, -lostGpuSeconds);
  const at = draft.evictions.findIndex(
    (note) => note.atMs === atMs && note.lostGpuSeconds === lostGpuSeconds,
  );
  if (at >= 0) draft.evictions = draft.evictions.filter((_note, index) => index !== at);
}
