/**
 * @file A trial removal of reservations: a transaction that ends with a commit or a rollback.
 *
 * A placement is often looked for as if some reservations did not exist. `withTrial` hands `release` to the attempt, and the attempt can
 * return nothing but a `TrialEnd`, so no trial stays open. A rollback restores all that was released, the last one first. An attempt that
 * throws is rolled back, too. A commit gives up the GPUs that were taken and restores the rest.
 * Trials may be nested; an inner trial ends before the outer one. Cost: O(hosts of the released reservations).
 */

import type { JobId } from "../../domain/values/ids.ts";
import type { HostGpus, Reservation } from "../../domain/lease/lease.ts";
import { restoreVersions, versionsOf } from "../capacity/capacity-state.ts";
import { change, relinquish, reservationOf, type ReservationSet } from "./reservation-set.ts";

/** Takes a job's reservation off the capacity; undefined when it has none. */
export type Release = (job: JobId) => Reservation | undefined;

/** The GPUs of a released reservation that are taken from it for good. */
export type TakenOf = (reservation: Reservation) => readonly HostGpus[];

export type TrialEnd<Value> =
  | { readonly kind: "rollback"; readonly value: Value }
  | { readonly kind: "commit"; readonly value: Value; readonly takenOf: TakenOf };

export const rollback = <Value>(value: Value): TrialEnd<Value> => ({ kind: "rollback", value });

export const commit = <Value>(value: Value, takenOf: TakenOf): TrialEnd<Value> => ({
  kind: "commit",
  value,
  takenOf,
});

export function withTrial<Value>(
  reservations: ReservationSet,
  attempt: (release: Release) => TrialEnd<Value>,
): Value {
  const { capacity, commits } = reservations;
  const before = versionsOf(capacity);
  const released: Reservation[] = [];
  let end: TrialEnd<Value> | undefined;
  try {
    end = attempt((job) => {
      const reservation = reservationOf(reservations, job);
      if (reservation === undefined) return undefined;
      change(reservations, job, undefined);
      released.push(reservation);
      return reservation;
    });
    return end.value;
  } finally {
    if (end?.kind === "commit") {
      reservations.commits += 1;
      for (const reservation of released)
        relinquish(reservations, reservation, end.takenOf(reservation));
    } else {
      for (const reservation of released.reverse())
        change(reservations, reservation.jobId, reservation);
      // A trial inside this one may have taken GPUs for good.
      if (reservations.commits === commits) restoreVersions(capacity, before);
    }
  }
}

/** As a trial without the job's reservation leaves it: the last in order. */
export function touchOwn(reservations: ReservationSet, job: JobId): void {
  const own = reservationOf(reservations, job);
  if (own !== undefined) change(reservations, job, own);
}

/** As a trial leaves them that releases the reservations of these jobs and takes nothing; `within`: what it touches meanwhile. */
export function touchInTrial(
  reservations: ReservationSet,
  jobs: readonly JobId[],
  within: () => void,
): void {
  for (const job of jobs) touchOwn(reservations, job);
  within();
  for (const job of [...jobs].reverse()) touchOwn(reservations, job);
}

/** What an attempt finds while the job's own reservation is off the capacity. */
export const withoutOwn = <Value>(
  reservations: ReservationSet,
  job: JobId,
  attempt: () => Value,
): Value =>
  withTrial(reservations, (release) => {
    release(job);
    return rollback(attempt());
  });
