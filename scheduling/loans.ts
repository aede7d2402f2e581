/**
 * @file Loans: GPUs that wait idle for a head's last ones are lent to jobs that give them back when they are asked to.
 *
 * A head holds what is free of its place while it waits for the rest, often for minutes. Meanwhile a request that cannot start
 * otherwise, and may borrow (loan-terms.ts), starts there. The reservation stays. When nothing but loans is between a head and its place, those
 * are called in all together: the borrowers write a checkpoint, stop, stand in line again with their seniority, and what they lost is
 * accounted to the head. That makes the head later by one checkpoint, and by the time for a revocation where a job does not answer.
 *
 * Lent is only what pays. A checkpoint and a restart cost a borrower seconds, so the head must be expected to wait for `LEAST_MS` at
 * least: for each lease that it waits for, as long again as that has run (the median of what run times of all sizes together
 * look like: P(longer than x | longer than e) = e / x), cut by its time limit; the longest of these counts.
 *
 * No loops: each round of evictions is followed by the start of a gang whose place was complete, and a borrower takes nothing from
 * anybody. Cost: O(hosts of a reservation + leases there) once a cycle for each head that holds free GPUs.
 */

import type { LeaseId } from "../domain/ids.ts";
import { gpuCountOf, type Lease, type Reservation } from "../domain/lease.ts";
import type { EvictItem, PendingRequest, PlanItem, ReserveItem } from "../domain/plan.ts";
import { noteLease } from "./capacity-changes.ts";
import { checkGrant, isAcceptableSize } from "./feasibility.ts";
import { isUsable } from "./head-plan.ts";
import { freeGpusIn, lift, putBack, type Heads } from "./heads.ts";
import type { Scene } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import { isOnLoanFrom } from "./loan-terms.ts";
import { gpusOnLoan } from "./reserved.ts";
import { lossOf } from "./evictable.ts";

/** Heads that are expected to wait for less lend nothing. */
export const LEAST_MS = 20_000;

/** Reservations of heads that lend what is free of theirs; not the request's own. */
export function lendersFor(
  heads: Heads,
  scene: Scene,
  request?: PendingRequest,
): readonly Reservation[] {
  const found: Reservation[] = [];
  for (const reservation of heads.now.values()) {
    const { jobId } = reservation;
    if (jobId === request?.jobId || freeGpusIn(heads, reservation) === 0) continue;
    if (expectedMs(heads, reservation, scene) >= LEAST_MS) found.push(reservation);
  }
  return found;
}

/** How long the head is expected to wait for the rest of its place; of what is no whole place, nobody knows. */
function expectedMs(
  { expected, requests }: Pick<Heads, "expected" | "requests">,
  reservation: Reservation,
  { capacity, nowMs }: Scene,
): number {
  const known = expected.get(reservation);
  if (known !== undefined) return known;
  let longestMs = 0;
  let missing = 0;
  for (const { host: id, mask } of reservation.gpus) {
    for (const hold of capacity.hosts.get(id)?.holds.values() ?? []) {
      if ((hold.mask & mask & ~hold.loanMask) === 0) continue;
      missing += 1;
      const agoMs = Math.max(0, nowMs - hold.sinceMs);
      longestMs = Math.max(longestMs, Math.min(agoMs, hold.endAtMs - nowMs));
    }
  }
  const request = requests.get(reservation.jobId);
  const isWhole =
    request === undefined || isAcceptableSize(request.gang, gpuCountOf(reservation.gpus));
  const ms = !isWhole ? Infinity : missing === 0 ? 0 : longestMs;
  expected.set(reservation, ms);
  return ms;
}

/** What of the item's GPUs is set apart for others now is on loan. */
export function asLoan(item: PlanItem, request: PendingRequest, scene: Scene): PlanItem {
  const { reserved } = scene.capacity;
  const lent = gpusOnLoan(reserved, request, { gpus: item.gpus, nowMs: scene.nowMs });
  return lent.length === 0 ? item : { ...item, isLoan: true };
}

export interface Recall {
  readonly evict: readonly EvictItem[];
  readonly reserve: ReserveItem;
}

/** For jobs that wait for nothing but what they have lent, and what is being given up. The capacity is left as it was. */
export function recalls(
  heads: Heads,
  scene: Scene,
  {
    ledger,
    taken,
  }: {
    readonly ledger: Ledger;
    /** Given up by this plan already. */
    readonly taken: ReadonlySet<LeaseId>;
  },
): readonly Recall[] {
  const found: Recall[] = [];
  const called = new Set(taken);
  for (const reservation of [...scene.capacity.reserved.byJob.values()]) {
    const { jobId, kind, gpus } = reservation;
    const request = ledger.requests.get(jobId);
    if (request === undefined || (kind !== "head" && kind !== "preemption")) continue;
    const holders = holdersOf(reservation, scene, ledger);
    if (holders === undefined) continue;
    const borrowers = holders.filter((lease) => !isLeaving(lease) && !called.has(lease.id));
    if (borrowers.length === 0) continue;
    if (!couldStart(request, reservation, { heads, scene, ledger, holders })) continue;
    const evict = borrowers.map((lease): EvictItem => {
      const lostGpuSeconds = lossOf(lease, scene.nowMs);
      called.add(lease.id);
      return {
        kind: "evict",
        lease: lease.id,
        forJob: jobId,
        lostGpuSeconds,
        reason: `${jobId} lent it GPUs and can start now; ${lostGpuSeconds} GPU-seconds are lost`,
      };
    });
    found.push({ evict, reserve: { jobId, gpus, kind: "preemption" } });
  }
  return found;
}

const isLeaving = ({ eviction, state }: Lease): boolean =>
  eviction !== undefined || state === "vacating";

/** Who has GPUs of this, on loan or not for long any more; undefined while it waits for anybody else. */
function holdersOf(
  reservation: Reservation,
  { capacity }: Scene,
  { leases }: Ledger,
): readonly Lease[] | undefined {
  const found = new Map<string, Lease>();
  for (const { host: id, mask } of reservation.gpus) {
    for (const [name, hold] of capacity.hosts.get(id)?.holds ?? []) {
      if ((hold.mask & mask) === 0) continue;
      // What this very plan grants has a name of the cycle's own, and is no lease yet.
      const lease = leases.get(name as LeaseId);
      if (lease === undefined) return undefined;
      found.set(name, lease);
      if (isLeaving(lease)) continue;
      if ((hold.mask & mask & ~hold.loanMask) !== 0 || !isOnLoanFrom(reservation, lease))
        return undefined;
    }
  }
  return [...found.values()].sort((a, b) => a.token - b.token);
}

/** As `apply` will judge the grant when those are gone that have them. */
function couldStart(
  request: PendingRequest,
  reservation: Reservation,
  {
    heads,
    scene,
    ledger,
    holders,
  }: {
    readonly heads: Heads;
    readonly scene: Scene;
    readonly ledger: Ledger;
    readonly holders: readonly Lease[];
  },
): boolean {
  const { capacity, nowMs } = scene;
  const { gpus } = reservation;
  if (!isUsable(request, reservation, scene)) return false;
  const own = lift(heads, request.jobId);
  for (const lease of holders) noteLease(capacity, lease, undefined);
  const { index, usage, reserved } = capacity;
  const slots = request.slots === undefined ? {} : { slots: 1 };
  const terms = { index, usage, reserved, standings: ledger.hosts, nowMs };
  const problem = checkGrant(request, { gpus, ...slots }, terms);
  for (const lease of holders) noteLease(capacity, undefined, lease);
  if (own !== undefined) putBack(heads, own);
  return problem === undefined && gpuCountOf(gpus) > 0;
}
