/**
 * @file Nominates a request: finds the GPUs on which it may start now, or the code by which it waits.
 *
 * Four sources are tried in this order, each with the ones before it: GPUs that are free and reserved for no job; those that are reserved for
 * the request itself; those of reservations that are open to it (access.ts); those that wait idle for other jobs, opportunistically. The
 * reservations stay as they were, but for what a grant takes from those that it preempts. Larger sources are skipped where they would not
 * give the smallest acceptable size.
 * Cost: that of `tryStart` for each source, O(hosts of the reservations) besides.
 */

import type { Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { isServedInTurn, leastSizeNow, waitOf } from "../admission/feasibility.ts";
import { tryStart, type Tried } from "../admission/try-start.ts";
import { smallestSize } from "../ledger/rules/grant-check.ts";
import { reservationsOpenTo, takenBy } from "../reservation/access.ts";
import { asOpportunistic, opportunisticFor } from "../reservation/opportunistic-backfill.ts";
import { freeGpusIn, type ReservationSet } from "../reservation/reservation-set.ts";
import { commit, rollback, withoutOwn, withTrial } from "../reservation/trial.ts";
import { mayRunOpportunistically, type CycleInput } from "./cycle-input.ts";
import { fleetCounts } from "./fleet-counts.ts";

/** `own`: the reservation of the request. */
export function nominate(
  input: CycleInput,
  reservations: ReservationSet,
  { gang, own }: { readonly gang: PendingRequest; readonly own: Reservation | undefined },
): Tried {
  if (own === undefined) return onAll(input, reservations, { gang, own });
  // A reason is about the fleet without the request's own reservation, so it takes the full search.
  if (!isExhaustive(input)) {
    const wait = waitAtOnce(input, reservations, { gang, own });
    if (wait !== undefined) return wait;
  }
  return withoutOwn(reservations, own.jobId, () => onAll(input, reservations, { gang, own }));
}

/** For a request behind a blocked one: it waits, whatever it could use. */
export function nominateBlocked(
  { view, context }: CycleInput,
  reservations: ReservationSet,
  { gang, own }: Nominee,
): Tried {
  const tried = withoutOwn(reservations, gang.jobId, () =>
    tryStart(gang, view, context, own && { own }),
  );
  return tried.kind === "wait"
    ? tried
    : { kind: "wait", code: "BehindEarlierJob", work: tried.work };
}

/** Reservations of other jobs that the request may use opportunistically. */
export const opportunisticReservations = (
  input: CycleInput,
  reservations: ReservationSet,
  gang: PendingRequest,
): readonly Reservation[] =>
  mayRunOpportunistically(input, gang) ? opportunisticFor(reservations, input.view, gang) : NONE;

const NONE: readonly Reservation[] = [];

interface Nominee {
  readonly gang: PendingRequest;
  readonly own: Reservation | undefined;
}

const isExhaustive = ({ isReporting, options: { onlyFor, policies } }: CycleInput): boolean =>
  isReporting || onlyFor !== undefined || policies.backfill === "none";

/** By counts alone, with the request's reservation in its place; undefined where the search must decide. */
function waitAtOnce(
  input: CycleInput,
  reservations: ReservationSet,
  { gang, own }: { readonly gang: PendingRequest; readonly own: Reservation },
): Tried | undefined {
  const { view, nowMs } = input;
  const open = fleetCounts(view.capacity).open + freeGpusIn(reservations, own);
  if (open >= leastSizeNow(gang, nowMs)) return undefined;
  const wait = waitOf(gang, view, { own });
  if (!isServedInTurn(wait.code)) return wait;
  const others = [
    ...reservationsOpenTo(reservations, gang),
    ...opportunisticReservations(input, reservations, gang),
  ];
  return areEnough(reservations, others, { open, gang }) ? undefined : wait;
}

/** With the request's own reservation off the capacity. */
function onAll(input: CycleInput, reservations: ReservationSet, nominee: Nominee): Tried {
  const { view, context } = input;
  const { gang, own } = nominee;
  const plain = tryStart(gang, view, context, own && { own });
  if (plain.kind === "grant" || !isServedInTurn(plain.code)) return plain;
  const preempting = onOpenReservations(input, reservations, nominee);
  if (preempting?.kind === "grant") return preempting;
  const opportunistic = onIdleReservations(input, reservations, nominee);
  if (opportunistic !== undefined) return opportunistic;
  return { ...plain, work: plain.work + (preempting?.work ?? 0) };
}

function onOpenReservations(
  { view, context }: CycleInput,
  reservations: ReservationSet,
  { gang, own }: Nominee,
): Tried | undefined {
  const others = reservationsOpenTo(reservations, gang);
  const { open } = fleetCounts(view.capacity);
  if (!areEnough(reservations, others, { open, gang })) return undefined;
  return withTrial<Tried>(reservations, (release) => {
    for (const { jobId } of others) release(jobId);
    const why = "next in the queue, on GPUs that an earlier job does not need yet";
    const tried = tryStart(gang, view, context, { ...(own && { own }), why });
    if (tried.kind === "wait") return rollback(tried);
    return commit(tried, takenBy(reservations, { request: gang, gpus: tried.item.gpus }));
  });
}

function onIdleReservations(
  input: CycleInput,
  reservations: ReservationSet,
  { gang, own }: Nominee,
): Tried | undefined {
  const { view, context } = input;
  const others = opportunisticReservations(input, reservations, gang);
  const { open } = fleetCounts(view.capacity);
  if (!areEnough(reservations, others, { open, gang })) return undefined;
  const tried = withTrial(reservations, (release) => {
    for (const { jobId } of others) release(jobId);
    const why = "opportunistically, until the jobs can start for which the GPUs are reserved";
    return rollback(tryStart(gang, view, context, { ...(own && { own }), why }));
  });
  return tried.kind === "grant"
    ? { ...tried, item: asOpportunistic(tried.item, gang, view) }
    : undefined;
}

/** Whether the free GPUs of these reservations and the open ones together reach the smallest acceptable size. */
function areEnough(
  reservations: ReservationSet,
  others: readonly Reservation[],
  { open, gang }: { readonly open: number; readonly gang: PendingRequest },
): boolean {
  if (others.length === 0) return false;
  const reach = others.reduce((sum, each) => sum + freeGpusIn(reservations, each), open);
  return reach >= smallestSize(gang.gang);
}
