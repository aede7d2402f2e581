/**
 * @file The reservations of one cycle: as the ledger has them, as the cycle changes them, and what is put back when it is over.
 *
 * A request that is next in the queue and cannot start reserves exact GPUs, free ones and leased ones (plan-reservation.ts). This is a
 * backfill reservation: other jobs may use those GPUs only by the rules of access.ts. Backfill reservations last from cycle to cycle, so
 * that a changing order cannot starve a large gang.
 * Every change takes effect on the capacity at once. `closeReservations` puts the capacity back. Only files of this room change a set.
 * Cost: O(hosts of a reservation) a change.
 */

import type { JobId } from "../../domain/values/ids.ts";
import { popCount, type HostGpus, type Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest, ReserveItem } from "../../domain/lease/plan.ts";
import { noteReservation } from "../capacity/capacity-changes.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import { untilLeasesChange } from "../capacity/release-profile.ts";
import { levelOf } from "../queue/service-order.ts";
import { delayMs } from "../queue/tawfq.ts";
import { sharedGpus, withoutGpus } from "../ledger/rules/reservation-index.ts";

export interface ReservationRule {
  /** Requests with a backfill reservation at the same time. */
  readonly most: number;
  /** Whether reservations last until the next cycle, whatever the order is then. */
  readonly isKept: boolean;
  /**
   * A request without a time limit that writes checkpoints, and so takes part in the order of service, has to wait for so long, and for the
   * delay of its level (tawfq.ts) on top, before it may reserve GPUs: where users state no limits, nobody knows how long a reservation would
   * last, and jobs that were served less would wait for one that was served more. Absent: not at all.
   */
  readonly patienceMs?: number;
  /** Whether a request may reserve a part of a place when others leave it no whole one. */
  readonly holdsParts: boolean;
}

/** The name under which free GPUs are reserved for inference jobs to come. No job has it: an id has no white space. */
export const INFERENCE_HEADROOM = "inference headroom" as JobId; // not from the constructor, which would refuse it

export interface ReservationSet {
  readonly rule: ReservationRule;
  readonly capacity: Capacity;
  readonly nowMs: number;
  readonly requests: ReadonlyMap<JobId, PendingRequest>;
  /** Backfill reservations as the ledger has them. */
  readonly former: ReadonlyMap<JobId, Reservation>;
  /** What the ledger keeps for gangs that have lost a host. */
  readonly kept: ReadonlyMap<JobId, Reservation>;
  /** Backfill reservations as the plan will leave them. */
  readonly backfill: Map<JobId, Reservation>;
  /** Jobs that this cycle has looked at: their reservations are not preemptible any more. */
  readonly visited: Set<JobId>;
  /** The reservation of each job before its first change, for `closeReservations`. */
  readonly changed: Map<JobId, Reservation | undefined>;
  /** Counts the times when reserved GPUs became open to all. */
  openings: number;
  /** Counts the changes of backfill reservations. */
  changes: number;
  /** Counts the trials that took GPUs from reservations. */
  commits: number;
  /** Of these versions, see `partlyFree`. */
  partlyFree?: KeptReservations;
  /** Of this version of the leases, see opportunistic-backfill.ts. */
  longWaiting?: KeptReservations;
}

interface KeptReservations {
  readonly version: number;
  readonly changes: number;
  readonly reservations: readonly Reservation[];
}

export interface ReservationSources {
  readonly rule: ReservationRule;
  readonly nowMs: number;
  readonly reservations: Iterable<Reservation>;
  readonly requests: ReadonlyMap<JobId, PendingRequest>;
}

export function openReservations(
  capacity: Capacity,
  { rule, nowMs, reservations: all, requests }: ReservationSources,
): ReservationSet {
  const former = new Map<JobId, Reservation>();
  const kept = new Map<JobId, Reservation>();
  for (const reservation of all) {
    if (reservation.kind === "backfill") former.set(reservation.jobId, reservation);
    if (reservation.kind === "replace") kept.set(reservation.jobId, reservation);
  }
  const reservations: ReservationSet = {
    rule: mayAny(requests.values(), rule, nowMs) ? rule : { ...rule, most: 0 },
    capacity,
    nowMs,
    requests,
    former,
    kept,
    backfill: new Map(former),
    visited: new Set(),
    changed: new Map(),
    openings: 0,
    changes: 0,
    commits: 0,
  };
  if (!rule.isKept) for (const job of former.keys()) setBackfill(reservations, job, undefined);
  return reservations;
}

/** Where no request may reserve, a pass need not look at all of them. Cost: O(1) where the first may. */
function mayAny(requests: Iterable<PendingRequest>, rule: ReservationRule, nowMs: number): boolean {
  if (rule.patienceMs === undefined || rule.most === 0) return true;
  for (const request of requests) if (mayReserve(rule, request, nowMs)) return true;
  return false;
}

export function closeReservations({ capacity, changed }: ReservationSet): void {
  // GPUs that belonged to another job before are given up first.
  for (const [job, former] of changed)
    if (capacity.reserved.byJob.get(job)?.gpus !== former?.gpus) put(capacity, job, undefined);
  for (const [job, former] of changed) put(capacity, job, former);
}

/** The reservation of a job, of any kind. */
export const reservationOf = ({ capacity }: ReservationSet, job: JobId): Reservation | undefined =>
  capacity.reserved.byJob.get(job);

/** Whether one more request may have a backfill reservation. */
export const hasRoom = ({ backfill, rule }: ReservationSet): boolean => backfill.size < rule.most;

/** Whether the request may make a first reservation by now. */
export function mayReserve(
  { patienceMs }: ReservationRule,
  request: PendingRequest,
  nowMs: number,
): boolean {
  const { timeLimitMs, checkpoint, requestedAtMs } = request;
  if (patienceMs === undefined || timeLimitMs !== undefined || checkpoint === undefined)
    return true;
  return nowMs - requestedAtMs >= patienceMs + delayMs(levelOf(request));
}

/** The cycle looks at a job: from here on its backfill reservation is preemptible no more. */
export function visit(reservations: ReservationSet, job: JobId): void {
  if (reservations.backfill.has(job)) reservations.visited.add(job);
}

/** How many GPUs of a reservation are in service and free. */
export const freeGpusIn = ({ capacity }: ReservationSet, { gpus }: Reservation): number =>
  freeOn(gpus, capacity);

const freeOn = untilLeasesChange((gpus, { hosts }) => {
  let free = 0;
  for (const { host: id, mask } of gpus) {
    const host = hosts.get(id);
    if (host !== undefined) free += popCount(mask & host.serviceMask & ~host.leasedMask);
  }
  return free;
});

export const hasFree = (reservations: ReservationSet, reservation: Reservation): boolean =>
  freeGpusIn(reservations, reservation) > 0;

/** Backfill reservations and kept GPUs, those with free ones, in their order. Cost: O(1) until something changes. */
export function partlyFree(reservations: ReservationSet): readonly Reservation[] {
  const { capacity, changes, backfill, partlyFree: known } = reservations;
  if (known?.version === capacity.version && known.changes === changes) return known.reservations;
  const all = [...backfill.values(), ...keptNow(reservations)];
  const found = all.filter((each) => hasFree(reservations, each));
  reservations.partlyFree = { version: capacity.version, changes, reservations: found };
  return found;
}

/** What is still kept for gangs that have lost a host. */
export const keptNow = (reservations: ReservationSet): readonly Reservation[] =>
  [...reservations.kept.keys()].flatMap((job) => {
    const now = reservationOf(reservations, job);
    return now?.kind === "replace" ? [now] : [];
  });

/** The job got what it waits for: its backfill reservation is open to all. */
export function endReservation(reservations: ReservationSet, job: JobId): void {
  if (!reservations.backfill.has(job)) return;
  setBackfill(reservations, job, undefined);
  reservations.openings += 1;
}

/** Other jobs are evicted for this one: from here on it waits for these GPUs, and has no backfill reservation. */
export function reserveForPreemptor(
  reservations: ReservationSet,
  { jobId, gpus, kind }: ReserveItem,
): void {
  reservations.changes += 1;
  if (reservations.backfill.delete(jobId)) reservations.openings += 1;
  change(reservations, jobId, { jobId, gpus, kind, sinceMs: reservations.nowMs });
}

/** An evicted job goes on with these GPUs: no other job may wait for them in this cycle. */
export const reserveForVictim = (
  reservations: ReservationSet,
  { jobId, gpus }: Pick<Reservation, "jobId" | "gpus">,
): void => change(reservations, jobId, { jobId, gpus, kind: "keep", sinceMs: reservations.nowMs });

/** Reserves free GPUs for inference jobs to come, while this cycle lasts. */
export function reserveHeadroom(reservations: ReservationSet, gpus: readonly HostGpus[]): void {
  if (gpus.length === 0) return;
  const { nowMs: sinceMs } = reservations;
  const reservation = { jobId: INFERENCE_HEADROOM, gpus, kind: "backfill", sinceMs } as const;
  change(reservations, INFERENCE_HEADROOM, reservation);
}

/** The reservation without the GPUs that another job took. Nothing changes when they share none. */
export function relinquish(
  reservations: ReservationSet,
  reservation: Reservation,
  taken: readonly HostGpus[],
): void {
  if (sharedGpus(reservation.gpus, taken).length === 0) {
    change(reservations, reservation.jobId, reservation);
    return;
  }
  const gpus = withoutGpus(reservation.gpus, taken);
  const { usableUntilMs: _void, ...rest } = reservation;
  const left = gpus.length === 0 ? undefined : { ...rest, gpus };
  if (reservation.kind === "replace") reservations.changes += 1;
  if (reservation.jobId === INFERENCE_HEADROOM || reservation.kind === "replace")
    change(reservations, reservation.jobId, left);
  else setBackfill(reservations, reservation.jobId, left);
}

/** Of the room alone: the backfill reservation of a job, or none any more. */
export function setBackfill(
  reservations: ReservationSet,
  job: JobId,
  after: Reservation | undefined,
): void {
  if (reservations.backfill.get(job) !== after) reservations.changes += 1;
  change(reservations, job, after);
  if (after === undefined) reservations.backfill.delete(job);
  else reservations.backfill.set(job, after);
}

/** Of the room alone: what the capacity has reserved for a job, whatever the plan will say of it. */
export function change(
  { capacity, changed, former }: ReservationSet,
  job: JobId,
  after: Reservation | undefined,
): void {
  if (!changed.has(job)) changed.set(job, capacity.reserved.byJob.get(job) ?? former.get(job));
  put(capacity, job, after);
}

const put = (capacity: Capacity, job: JobId, after: Reservation | undefined): void =>
  noteReservation(capacity, capacity.reserved.byJob.get(job), after);
