/** @file The evictions of a cycle: for those who wait and are due or whom moves help, and for jobs that grow back. */

import type { Reservation } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { isLending, type CycleRun } from "./cycle-run.ts";
import { move } from "./cycle-moves.ts";
import { planGrowth } from "./growth.ts";
import { lift, putBack, setKept, setPreempting } from "./heads.ts";
import { isInVain, noteInVain } from "./in-vain.ts";
import { isServedInTurn, type WaitCode } from "./judge.ts";
import { recalls } from "./loans.ts";
import { noteGranted, openPreemption, planPreemption, type Preemption } from "./preemption.ts";

/** Whether others give up GPUs for it from now on. */
export function preempt(
  run: CycleRun,
  gang: PendingRequest,
  { code, own }: { readonly code: WaitCode; readonly own: Reservation | undefined },
): boolean {
  const { scene, heads, options } = run;
  const mayHelp = isServedInTurn(code) || code === "WaitingForQuota";
  if (run.preemptionsLeft <= 0 || !mayHelp || (own !== undefined && own.kind !== "head"))
    return false;
  run.preemptionsLeft -= 1;
  run.isShortOfVictims = true;
  const preemption = preemptionOf(run);
  if (preemption === undefined) {
    run.preemptionsLeft = 0;
    return false;
  }
  const mayBeMoved = code === "TopologyPlacementFailed" && run.mayMove;
  if (own === undefined && !mayBeMoved && isInVain(run, gang)) return false;
  const cleared: Reservation[] = [];
  const plan = planPreemption(gang, scene, {
    preemption,
    place: options.policies.place,
    clear: () => {
      const set = lift(heads, gang.jobId);
      if (set !== undefined) cleared.push(set);
    },
  });
  if (plan === undefined) {
    for (const reservation of cleared) putBack(heads, reservation);
    if (own === undefined) noteInVain(run, gang);
    return code === "TopologyPlacementFailed" && move(run, gang, { preemption, own });
  }
  run.candidates += plan.work;
  run.evict.push(...plan.evict);
  run.evictReserve.push(plan.reserve);
  setPreempting(heads, plan.reserve);
  for (const { lease, keep } of plan.evict) {
    const victim = run.snapshot.leases.get(lease);
    if (victim !== undefined && keep !== undefined)
      setKept(heads, { jobId: victim.jobId, gpus: keep });
  }
  if (own !== undefined) heads.opened += 1;
  return true;
}

/** What evictions of the cycle have in common, with all that it has granted so far; undefined where the fleet does not preempt. */
export function preemptionOf(run: CycleRun): Preemption | undefined {
  const { brain, snapshot, scene, nowMs, grantedBefore } = run;
  const preemption =
    run.preemption ?? openPreemption(snapshot, scene.capacity, { ...brain, nowMs });
  if (preemption === undefined) return undefined;
  run.preemption = preemption;
  for (const { request, gpus } of grantedBefore) noteGranted(preemption, request, gpus);
  grantedBefore.length = 0;
  return preemption;
}

export function grow(run: CycleRun): void {
  const { brain, snapshot, scene, nowMs, options } = run;
  const { policies, method, onlyFor } = options;
  if (onlyFor !== undefined || policies.isPreempting !== true || method !== "decide") return;
  if (brain.shrunk.size === 0) return;
  const preemption =
    run.preemption ?? openPreemption(snapshot, scene.capacity, { ...brain, nowMs });
  if (preemption === undefined) return;
  run.preemption = preemption;
  const plan = planGrowth(scene, { preemption, place: policies.place });
  run.candidates += plan.work;
  run.evict.push(...plan.evict);
  run.evictReserve.push(...plan.reserve);
}

/** Heads that wait for nothing but what they have lent call it in. */
export function callInLoans(run: CycleRun): void {
  const { snapshot, scene, heads, granted, options } = run;
  if (!isLending(run) || options.onlyFor !== undefined) return;
  const taken = new Set(run.evict.map(({ lease }) => lease));
  for (const { evict, reserve } of recalls(heads, scene, { ledger: snapshot, taken })) {
    if (granted.has(reserve.jobId)) continue;
    run.evict.push(...evict);
    run.evictReserve.push(reserve);
    setPreempting(heads, reserve);
  }
}
