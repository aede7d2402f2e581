/**
 * @file The inference headroom of a cycle: free GPUs are reserved for inference jobs to come, and evictions refill what was used.
 *
 * Reserved are GPUs that are free and reserved for no job. Where those do not suffice, GPUs of incomplete preemptible reservations are taken,
 * the farthest from their start first: in the queue the headroom stands where inference does, before them.
 */

import { gpuCountOf } from "../../domain/lease/lease.ts";
import { isLow, incomingGpus, planRefill } from "../preemption/headroom-refill.ts";
import { incompleteReservations } from "../reservation/access.ts";
import { headroomGpus, headroomTarget, shareOfFleet } from "../reservation/inference-headroom.ts";
import {
  freeGpusIn,
  INFERENCE_HEADROOM,
  reservationOf,
  reserveHeadroom,
  type ReservationSet,
} from "../reservation/reservation-set.ts";
import { commit, withTrial } from "../reservation/trial.ts";
import type { CycleInput } from "./cycle-input.ts";
import { fleetCounts } from "./fleet-counts.ts";
import type { CycleParts } from "./parts.ts";

export function openHeadroom(input: CycleInput, reservations: ReservationSet): void {
  const { cache, snapshot } = input;
  const { capacity } = cache;
  // Without requests of other classes there is no need to keep GPUs from them.
  if (snapshot.requests.size <= cache.inference.size) return;
  const targetGpus = targetOf(input);
  if (targetGpus === 0) return;
  const gpus = withTrial(reservations, (release) => {
    let missing = targetGpus - fleetCounts(capacity).open;
    for (const reservation of missing > 0 ? incompleteReservations(reservations) : []) {
      if (missing <= 0) break;
      missing -= freeGpusIn(reservations, reservation);
      release(reservation.jobId);
    }
    const found = headroomGpus(snapshot, capacity, targetGpus);
    return commit(found, () => found);
  });
  reserveHeadroom(reservations, gpus);
}

/** GPUs that the policies keep free. */
function targetOf({
  cache: { capacity },
  snapshot,
  nowMs,
  options: { policies },
}: CycleInput): number {
  const { fixedHeadroomShare, hasInferenceHeadroom } = policies;
  if (fixedHeadroomShare !== undefined) return shareOfFleet(capacity, fixedHeadroomShare);
  return hasInferenceHeadroom === true ? headroomTarget(snapshot, capacity, nowMs) : 0;
}

/** After the admission passes: evicts for what the headroom lacks. */
export function refillHeadroom(
  input: CycleInput,
  { plan, work, reservations, preemption }: CycleParts,
): void {
  const { cache, snapshot, view, nowMs, options } = input;
  const { policies, method, onlyFor } = options;
  if (!mayRefill(input) || onlyFor !== undefined || method !== "decide") return;
  const targetGpus = headroomTarget(snapshot, cache.capacity, nowMs);
  if (targetGpus === 0) return;
  const reserved = reservationOf(reservations, INFERENCE_HEADROOM);
  const free =
    fleetCounts(cache.capacity).open +
    (reserved === undefined ? 0 : freeGpusIn(reservations, reserved));
  const level = { targetGpus, gpus: free + incomingGpus(snapshot) };
  if (!isLow(level)) return;
  const account = preemption.account();
  if (account === undefined) return;
  const found = planRefill(level, view, { preemption: account, place: policies.place });
  work.spend(found.work);
  plan.evict(found);
  plan.wakeAt(found.wakeAtMs);
  if (gpuCountOf(found.reserve.flatMap(({ gpus }) => gpus)) === 0) preemption.noteShortage();
}

/** Whether a cycle may evict for the headroom even when no request waits. */
export const mayRefill = ({
  snapshot,
  options: { policies },
}: Pick<CycleInput, "snapshot" | "options">): boolean =>
  policies.hasInferenceHeadroom === true &&
  policies.isPreempting === true &&
  snapshot.latencyDemand !== undefined;
