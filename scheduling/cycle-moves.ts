/**
 * @file The moves of a cycle: running gangs that change places, so that a request for which enough is free, only not together, can start.
 *
 * Asked after evictions by right have given nothing; made only where they pay (defragmentation.ts). How long the request would else
 * wait is when its place is ready by what running jobs have stated. One search a cycle: the next request is looked at in the next.
 */

import type { Reservation } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import type { CycleRun } from "./cycle-run.ts";
import { proposeMoves } from "./defragmentation.ts";
import { planHead } from "./head-plan.ts";
import { lift, putBack, setKept, setPreempting } from "./heads.ts";
import type { Preemption } from "./preemption.ts";

/** Whether others are moved for it from now on. */
export function move(
  run: CycleRun,
  gang: PendingRequest,
  { preemption, own }: { readonly preemption: Preemption; readonly own: Reservation | undefined },
): boolean {
  const { scene, heads, options } = run;
  const { place } = options.policies;
  if (!run.mayMove) return false;
  run.mayMove = false;
  // What is set apart for itself is in the way of nobody that would be moved for it.
  const lifted = lift(heads, gang.jobId);
  const found = proposeMoves(gang, scene, {
    preemption,
    place,
    isOnlyPaying: true,
    // Asked for once, where there is anything to try, which is seldom.
    get waitMs() {
      return (planHead(gang, scene, place)?.readyAtMs ?? Infinity) - scene.nowMs;
    },
  });
  if (found === undefined) {
    if (lifted !== undefined) putBack(heads, lifted);
    return false;
  }
  const { evict, reserve, moves } = found;
  run.candidates += moves.length;
  run.evict.push(...evict);
  run.evictReserve.push(...reserve);
  for (const item of reserve) {
    if (item.jobId === gang.jobId) setPreempting(heads, item);
    else setKept(heads, item);
  }
  for (const { lease } of moves) preemption.taken.add(lease.id);
  const lost = moves.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0);
  preemption.spent.set(gang.tenant, (preemption.spent.get(gang.tenant) ?? 0) + lost);
  if (own !== undefined) heads.opened += 1;
  return true;
}
