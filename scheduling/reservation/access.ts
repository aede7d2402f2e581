/**
 * @file Which reserved GPUs other requests may use, and at whose cost.
 *
 * There are three ways. *Shadow time* (EASY): a job whose time limit ends before the last reserved GPU is free delays no other, and the
 * reservation stays as it is. *Preemption of a reservation*: a request that comes earlier in the queue takes free GPUs of a request that has
 * waited for less than `PREEMPTIBLE_MS`, which then waits for others instead. *Headroom*: inference jobs take what is reserved for them.
 * After `PREEMPTIBLE_MS` a reservation is preemptible by inference jobs only, and after `PREEMPTIBLE_BY_INFERENCE_MS` by none, so its job
 * starts at the latest when the leases that it waits for have ended. What a gang keeps that has lost a host, inference jobs alone may take, at any time:
 * it goes on only as long as it is short (docs/decisions/0123). Opportunistic backfill is a fourth way (opportunistic-backfill.ts).
 * Cost: O(reservations · hosts of one).
 */

import type { JobClass } from "../../domain/job/job.ts";
import { gpuCountOf, type HostGpus, type Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import {
  freeGpusIn,
  hasFree,
  INFERENCE_HEADROOM,
  keptNow,
  partlyFree,
  reservationOf,
  type ReservationSet,
} from "./reservation-set.ts";
import type { TakenOf } from "./trial.ts";

/** For so long after its request a reservation is preemptible by requests that come earlier in the queue. */
export const PREEMPTIBLE_MS = 3_600_000;
/** The same by inference jobs and their headroom: they take a few GPUs of a hundred and give them back soon. */
export const PREEMPTIBLE_BY_INFERENCE_MS = 2 * PREEMPTIBLE_MS;

/** Reservations of other jobs whose free GPUs the request may use. */
export function reservationsOpenTo(
  reservations: ReservationSet,
  request: PendingRequest,
): readonly Reservation[] {
  // Tasks of an array follow each other in one lease, and no limit says when it ends.
  const isOpenEnded = request.slots !== undefined;
  const headroom =
    request.class === "inference" ? reservationOf(reservations, INFERENCE_HEADROOM) : undefined;
  const free = isOpenEnded ? NONE : partlyFree(reservations);
  if (headroom === undefined && free.length === 0) return NONE;
  const found: Reservation[] = headroom === undefined ? [] : [headroom];
  for (const reservation of free) {
    if (reservation.jobId === request.jobId) continue;
    if (
      fitsShadowTime(reservations, reservation, request) ||
      isPreemptibleBy(reservations, reservation, request.class)
    )
      found.push(reservation);
  }
  return found;
}

const NONE: readonly Reservation[] = [];

/** Whether any request with such a time limit or a longer one might use reserved GPUs. */
export function isAnyOpenTo(
  reservations: ReservationSet,
  leastLimitMs: number,
  jobClass: JobClass = "training",
): boolean {
  for (const reservation of partlyFree(reservations)) {
    if (fitsShadowTime(reservations, reservation, { timeLimitMs: leastLimitMs })) return true;
    if (isPreemptibleBy(reservations, reservation, jobClass)) return true;
  }
  return false;
}

/** What a grant takes from reservations for good: nothing where the job ends within the shadow time. */
export const takenBy =
  (
    reservations: ReservationSet,
    { request, gpus }: { readonly request: PendingRequest; readonly gpus: readonly HostGpus[] },
  ): TakenOf =>
  (reservation) =>
    fitsShadowTime(reservations, reservation, request) ? [] : gpus;

/** Reservations that the request may preempt, whether their GPUs are free or not. */
export function preemptibleBy(
  reservations: ReservationSet,
  request: PendingRequest,
): readonly Reservation[] {
  const found = [...reservations.backfill.values()].filter(
    (reservation) =>
      reservation.jobId !== request.jobId &&
      isPreemptibleBy(reservations, reservation, request.class),
  );
  const headroom = reservationOf(reservations, INFERENCE_HEADROOM);
  if (headroom !== undefined) found.push(headroom);
  return found;
}

/** Reservations that inference may preempt and that are not complete yet, the farthest from their start first; ties by seniority. */
export function incompleteReservations(reservations: ReservationSet): readonly Reservation[] {
  const found: { readonly reservation: Reservation; readonly missing: number }[] = [];
  for (const reservation of reservations.backfill.values()) {
    const free = freeGpusIn(reservations, reservation);
    const missing = gpuCountOf(reservation.gpus) - free;
    if (free > 0 && missing > 0 && isPreemptibleBy(reservations, reservation, "inference"))
      found.push({ reservation, missing });
  }
  found.sort((a, b) => b.missing - a.missing);
  return found.map(({ reservation }) => reservation);
}

/** Whether the job ends, by its time limit, before the last reserved GPU is free. */
function fitsShadowTime(
  { nowMs }: ReservationSet,
  { usableUntilMs }: Reservation,
  { timeLimitMs }: { readonly timeLimitMs?: number },
): boolean {
  return (
    usableUntilMs !== undefined && timeLimitMs !== undefined && nowMs + timeLimitMs <= usableUntilMs
  );
}

/** Whether inference jobs might take GPUs that are kept for a gang that has lost a host. */
export const isAnyKeptOpen = (reservations: ReservationSet): boolean =>
  keptNow(reservations).some(
    (each) => hasFree(reservations, each) && isPreemptibleBy(reservations, each, "inference"),
  );

function isPreemptibleBy(
  { visited, requests, nowMs }: ReservationSet,
  { jobId, kind }: Reservation,
  jobClass: JobClass,
): boolean {
  const request = requests.get(jobId);
  // Kept for minutes, so for others there is no need.
  if (kind === "replace")
    return jobClass === "inference" && request !== undefined && request.class !== "inference";
  const untilMs = jobClass === "inference" ? PREEMPTIBLE_BY_INFERENCE_MS : PREEMPTIBLE_MS;
  return !visited.has(jobId) && request !== undefined && nowMs - request.requestedAtMs < untilMs;
}
