/** @file Admits requests: enters their grants everywhere, and gives job arrays what is left when every request had its chance. */

import type { PendingRequest, PlanItem } from "../../domain/lease/plan.ts";
import { asOneGang, fillArray } from "../admission/fill-arrays.ts";
import { endReservation } from "../reservation/reservation-set.ts";
import { RETRY_MS, type CycleInput } from "./cycle-input.ts";
import { isAtLimit, type CycleParts } from "./parts.ts";

/** A backfill reservation ends with the grant; others last until `apply` has made it. */
export function admit(
  { plan, reservations, preemption }: Pick<CycleParts, "plan" | "reservations" | "preemption">,
  request: PendingRequest,
  item: PlanItem,
): void {
  plan.grant(request, item);
  preemption.noteGrant(request, item.gpus);
  endReservation(reservations, request.jobId);
}

/** Further gangs for the arrays that got their first, in the order of those grants. */
export function fillArrays(
  { snapshot, view, nowMs, context }: CycleInput,
  parts: CycleParts,
): void {
  const { plan, work, reports } = parts;
  for (const job of [...plan.grantedJobs]) {
    const request = snapshot.requests.get(job);
    if (request === undefined) continue;
    let slots = (request.slots ?? 1) - 1;
    const gang = asOneGang(request, view);
    while (slots > 0) {
      if (isAtLimit(parts)) {
        plan.wakeAt(nowMs + RETRY_MS);
        break;
      }
      const filled = fillArray(gang, slots, { view, context });
      work.spend(filled.work);
      if (filled.kind === "wait") {
        reports.report(gang, filled.code);
        break;
      }
      admit(parts, request, filled.item);
      slots -= filled.item.slots ?? 1;
    }
  }
}
