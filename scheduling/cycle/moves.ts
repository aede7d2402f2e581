/**
 * @file The moves of a cycle: running gangs change places so that a request can start for which enough GPUs are free, only not together.
 *
 * The cycle asks for moves after preemption by right has found nothing, and makes them only where they pay (defragmentation.ts). The time
 * that the request would wait otherwise is until its best reservation is ready, by the time limits of running jobs.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import { noteMoved, type PreemptionAccount } from "../preemption/account.ts";
import { proposeMoves } from "../preemption/defragmentation.ts";
import { findReservation } from "../reservation/plan-reservation.ts";
import type { CycleInput } from "./cycle-input.ts";
import type { EvictionSet } from "./plan-draft.ts";

/** With the request's own reservation off the capacity. */
export function move(
  { view, options, placeLater }: CycleInput,
  account: PreemptionAccount,
  gang: PendingRequest,
): EvictionSet | undefined {
  const { place } = options.policies;
  const found = proposeMoves(gang, view, {
    preemption: account,
    place,
    placeLater,
    isOnlyPaying: true,
    // A getter, because the search asks for it only where there is anything to try, which is seldom.
    get waitMs() {
      return (findReservation(gang, view, { place })?.readyAtMs ?? Infinity) - view.nowMs;
    },
  });
  if (found === undefined) return undefined;
  noteMoved(account, gang.tenant, found.moves);
  return { evict: found.evict, reserve: found.reserve };
}
