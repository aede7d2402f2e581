/**
 * @file Kinds of requests for whom, in this cycle, no job of their own tenant gives way: an equal request need not search again.
 *
 * A search by the order of service depends on the tenant, class, rank and priority, on the gang and the constraints. While no reservation
 * changes, a cycle leaves fewer GPUs free, more leases that are given up already, and less of the budget: so what failed fails again.
 * Requests that will accept less later, arrays and jobs with reservations of their own are not of a kind. Cost: O(1), a text each.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import { optionsNumber } from "../capacity/capacity.ts";
import { canShrink } from "../ledger/rules/grant-check.ts";
import { tenantFlow } from "../ledger/rules/flow.ts";
import type { ServiceOrder } from "../queue/service-order.ts";
import type { ReservationSet } from "../reservation/reservation-set.ts";
import type { CycleInput } from "./cycle-input.ts";

export interface FailedSearches {
  /** The request's kind; undefined where it has none. */
  readonly kindOf: (request: PendingRequest, order: ServiceOrder) => string | undefined;
  readonly has: (kind: string, reservations: ReservationSet) => boolean;
  readonly note: (kind: string, reservations: ReservationSet) => void;
}

export function openFailedSearches({
  cache: { capacity },
  nowMs,
}: Pick<CycleInput, "cache" | "nowMs">): FailedSearches {
  const failed = new Set<string>();
  let changes: number | undefined;
  const settle = (reservations: ReservationSet): void => {
    if (changes !== reservations.changes) failed.clear();
    changes = reservations.changes;
  };
  return {
    kindOf(request, order) {
      const { gang, slots, priority, timeLimitMs, constraints } = request;
      if (canShrink(gang) || slots !== undefined) return undefined;
      const options = optionsNumber(capacity, request, nowMs);
      if (options === undefined) return undefined;
      // Options tell hosts apart; whether a place is worth waiting for depends on the other needs as well.
      const needs = `${options} ${JSON.stringify(constraints)} ${gang.gpus} ${timeLimitMs}`;
      return `${needs} ${tenantFlow(request)} ${order.rankOf(request)} ${priority}`;
    },
    has(kind, reservations) {
      settle(reservations);
      return failed.has(kind);
    },
    note(kind, reservations) {
      settle(reservations);
      failed.add(kind);
    },
  };
}
