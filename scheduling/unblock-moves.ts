/**
 * @file Moves as a change that would let a job start: what they would cost and win, and whether the fleet makes them by itself.
 *
 * The same search as a cycle's (cycle-moves.ts), on a capacity of its own. Cost: O(hosts + leases), then that search.
 */

import type { PendingRequest } from "../domain/plan.ts";
import { openCapacity } from "./capacity.ts";
import { PAYS_TIMES, proposeMoves, type MoveProposal } from "./defragmentation.ts";
import { planHead } from "./head-plan.ts";
import type { Scene } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import type { PlacePolicy } from "./placement/place-policy.ts";
import { openPreemption } from "./preemption.ts";

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
  // What is set apart for itself is not in its way.
  const reservations = new Map(ledger.reservations);
  reservations.delete(request.jobId);
  const capacity = openCapacity({ ...ledger, reservations });
  const preemption = openPreemption(ledger, capacity, { nowMs });
  if (preemption === undefined) return undefined;
  const scene: Scene = { capacity, claims: new Map(), nowMs };
  const ready = planHead(request, scene, place)?.readyAtMs ?? Infinity;
  const found = proposeMoves(request, scene, { preemption, place, waitMs: ready - nowMs });
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
