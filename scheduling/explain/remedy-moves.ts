/**
 * @file Finds moves of running gangs that would let a job start, with their price and gain, and whether the fleet makes them by itself.
 *
 * Runs the cycle's own search (defragmentation.ts) on a fresh capacity. Cost: O(hosts + leases), then that search.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import { openCapacity } from "../capacity/capacity.ts";
import { PAYS_TIMES, proposeMoves, type MoveProposal } from "../preemption/defragmentation.ts";
import { findReservation } from "../reservation/plan-reservation.ts";
import type { CycleView } from "../admission/feasibility.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { PlacePolicy } from "../placement/place-policy.ts";
import { openPreemption } from "../preemption/account.ts";

export interface OfferedMoves {
  readonly found: MoveProposal;
  readonly text: string;
}

/** Undefined where no moves would help, or the fleet does not preempt. */
export function movesFor(
  ledger: Ledger,
  request: PendingRequest,
  { nowMs, place }: { readonly nowMs: number; readonly place: PlacePolicy },
): OfferedMoves | undefined {
  // The job's own reservation does not block it.
  const reservations = new Map(ledger.reservations);
  reservations.delete(request.jobId);
  const capacity = openCapacity({ ...ledger, reservations });
  const preemption = openPreemption(ledger, capacity, { nowMs });
  if (preemption === undefined) return undefined;
  const view: CycleView = { capacity, claims: new Map(), nowMs };
  const ready = findReservation(request, view, { place })?.readyAtMs ?? Infinity;
  const found = proposeMoves(request, view, { preemption, place, waitMs: ready - nowMs });
  return found && { found, text: textOf(found) };
}

function textOf({ moves, priceGpuSeconds, gainGpuSeconds, doesPay }: MoveProposal): string {
  const named = moves.slice(0, 3).map(({ lease, to }) => {
    const hosts = to.map(({ host }) => host).join(" and ");
    return `${lease.id} (${lease.jobId}) to ${hosts}`;
  });
  const rest = moves.length > named.length ? ` and ${moves.length - named.length} more` : "";
  const figures = `${Math.round(priceGpuSeconds)} GPU-seconds lost, ${Math.round(gainGpuSeconds)} won`;
  const verdict = doesPay
    ? "done by itself"
    : `done by itself from ${PAYS_TIMES} times the price on`;
  return `move ${named.join(", ")}${rest}: ${figures}, ${verdict}`;
}
