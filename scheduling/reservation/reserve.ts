/**
 * @file Reserves GPUs for a request that cannot start: a first reservation, a better one, or the one that it has.
 *
 * Another set of GPUs replaces a reservation only when it is ready sooner, or when the reserved GPUs cannot serve the request any more.
 * A search is made only where something could be better (improvement-bound.ts). When the reservations of others leave too little, the
 * request may preempt those of requests behind it; if that is not enough either, it reserves a part of a place where the rule allows it.
 * Cost: that of plan-reservation.ts.
 */

import { gpuCountOf, type HostGpus, type Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { CycleView } from "../admission/feasibility.ts";
import { withoutGpus } from "../ledger/rules/reservation-index.ts";
import type { PlacePolicy } from "../placement/place-policy.ts";
import { preemptibleBy } from "./access.ts";
import { couldImprove } from "./improvement-bound.ts";
import {
  findReservation,
  fitOf,
  isBetter,
  isUsable,
  planPart,
  usableUntilOf,
  type ReservationOption,
} from "./plan-reservation.ts";
import {
  hasFree,
  hasRoom,
  reservationOf,
  setBackfill,
  type ReservationSet,
} from "./reservation-set.ts";
import { commit, withoutOwn, withTrial } from "./trial.ts";

export interface ReserveContext {
  readonly view: CycleView;
  readonly place: PlacePolicy;
}

/** Returns whether the request has a reservation after that. */
export function reserve(
  reservations: ReservationSet,
  request: PendingRequest,
  context: ReserveContext,
): boolean {
  const { jobId } = request;
  reservations.visited.add(jobId);
  const own = reservationOf(reservations, jobId);
  if (own === undefined) return reserveFirst(reservations, request, context);
  if (own.kind !== "backfill") return true;
  const { view, place } = context;
  if (isUsable(request, own, view)) {
    const known = fitOf(own.gpus, view);
    const found = mayImprove(reservations, request, { own, known, view })
      ? withoutOwn(reservations, jobId, () => findReservation(request, view, { place, known }))
      : undefined;
    if (found === undefined || !isBetter(found, known)) renew(reservations, own, { known, view });
    else replace(reservations, own, { found, view });
    return true;
  }
  const found = withoutOwn(reservations, jobId, () => search(reservations, request, context));
  if (found !== undefined) replace(reservations, own, { found, view });
  else {
    reservations.openings += 1;
    setBackfill(reservations, jobId, undefined);
  }
  return found !== undefined;
}

function reserveFirst(
  reservations: ReservationSet,
  request: PendingRequest,
  context: ReserveContext,
): boolean {
  if (!hasRoom(reservations) || isNothingLeft(reservations, request)) return false;
  const found = search(reservations, request, context);
  if (found === undefined) return false;
  const { view } = context;
  const { jobId } = request;
  const first = { jobId, kind: "backfill", gpus: found.gpus, sinceMs: view.nowMs } as const;
  enter(reservations, first, { found, view });
  return true;
}

/** The same GPUs, with the time until which others may use them as it is known now: that time only comes nearer. */
function renew(
  reservations: ReservationSet,
  own: Reservation,
  { known, view }: { readonly known: ReservationOption; readonly view: CycleView },
): void {
  const { usableUntilMs: formerMs, ...rest } = own;
  const readyMs = usableUntilOf(known, view);
  const untilMs = readyMs && Math.min(readyMs, formerMs ?? readyMs);
  if (untilMs === formerMs) return;
  const terms = untilMs === undefined ? {} : { usableUntilMs: untilMs };
  setBackfill(reservations, own.jobId, { ...rest, ...terms });
}

function replace(
  reservations: ReservationSet,
  own: Reservation,
  { found, view }: { readonly found: ReservationOption; readonly view: CycleView },
): void {
  reservations.openings += 1;
  if (isSameSet(own.gpus, found.gpus) && own.usableUntilMs === undefined) return;
  const { usableUntilMs: _former, ...rest } = own;
  enter(reservations, { ...rest, gpus: found.gpus }, { found, view });
}

/** The time until which others may use the GPUs is asked for after their watts are accounted for. */
function enter(
  reservations: ReservationSet,
  reservation: Reservation,
  { found, view }: { readonly found: ReservationOption; readonly view: CycleView },
): void {
  setBackfill(reservations, reservation.jobId, reservation);
  const usableUntilMs = usableUntilOf(found, view);
  if (usableUntilMs !== undefined)
    setBackfill(reservations, reservation.jobId, { ...reservation, usableUntilMs });
}

/** On GPUs that are reserved for no job; else at the cost of the preemptible reservations; else, by the rule, a part of a place. */
function search(
  reservations: ReservationSet,
  request: PendingRequest,
  { view, place }: ReserveContext,
): ReservationOption | undefined {
  const free = findReservation(request, view, { place });
  if (free !== undefined) return free;
  return withTrial(reservations, (release) => {
    for (const { jobId } of preemptibleBy(reservations, request)) release(jobId);
    const found =
      findReservation(request, view, { place }) ??
      (reservations.rule.holdsParts ? planPart(request, view) : undefined);
    return commit(found, () => found?.gpus ?? []);
  });
}

/** All GPUs are reserved, and no reservation is preemptible. */
const isNothingLeft = (reservations: ReservationSet, request: PendingRequest): boolean =>
  reservations.capacity.pools.every(({ tallies }) => tallies.unreserved.gpus === 0) &&
  preemptibleBy(reservations, request).length === 0;

function mayImprove(
  reservations: ReservationSet,
  request: PendingRequest,
  {
    own,
    known,
    view,
  }: {
    readonly own: Reservation;
    readonly known: ReservationOption;
    readonly view: CycleView;
  },
): boolean {
  if (known.missing === 0) return false;
  const isAnyOpen = view.capacity.pools.some(({ tallies }) => tallies.open.gpus > 0);
  if (!isAnyOpen && !hasFree(reservations, own)) return false;
  return couldImprove(request, known, view);
}

const isSameSet = (a: readonly HostGpus[], b: readonly HostGpus[]): boolean =>
  a === b || (gpuCountOf(a) === gpuCountOf(b) && withoutGpus(a, b).length === 0);
