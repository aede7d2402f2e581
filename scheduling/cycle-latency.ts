/**
 * @file What a cycle does for inference jobs that are to come: GPUs are kept free for them, and whoever took of those has them replaced.
 *
 * Kept are GPUs that are free and set apart for nobody; if those do not suffice, also such as wait for a head that yields and is not
 * complete yet (the ones farthest from their start first): in line the reserve stands where inference does, before them.
 */

import { gpuCountOf, type Reservation } from "../domain/lease.ts";
import { isLow, onOrderGpus, planBridge } from "./bridge.ts";
import { gpusNow, wakeAt, type CycleRun } from "./cycle-run.ts";
import { preemptionOf } from "./cycle-evictions.ts";
import { freeGpusIn, incompleteHeads, keepForInference, LATENCY, lift, giveUp } from "./heads.ts";
import { latencyTarget, reservedForLatency } from "./reserve.ts";

export function keepLatencyReserve(run: CycleRun): void {
  const { brain, snapshot, heads, nowMs, options } = run;
  const { capacity } = brain;
  // Where nobody else waits there is nobody to keep GPUs from.
  if (options.policies.hasLatencyReserve !== true) return;
  if (snapshot.requests.size <= brain.inference.size) return;
  const targetGpus = latencyTarget(snapshot, capacity, nowMs);
  if (targetGpus === 0) return;
  const lifted: Reservation[] = [];
  let missing = targetGpus - gpusNow(run).open;
  for (const reservation of missing > 0 ? incompleteHeads(heads) : []) {
    if (missing <= 0) break;
    missing -= freeGpusIn(heads, reservation);
    lift(heads, reservation.jobId);
    lifted.push(reservation);
  }
  const kept = reservedForLatency(snapshot, capacity, nowMs).gpus;
  for (const reservation of lifted) giveUp(heads, reservation, kept);
  keepForInference(heads, kept);
}

/** After everybody's turn: orders what the reserve lacks. */
export function refillLatencyReserve(run: CycleRun): void {
  const { brain, snapshot, heads, scene, nowMs, options } = run;
  const { policies, method, onlyFor } = options;
  if (!mayRefill(run) || onlyFor !== undefined || method !== "decide") return;
  const targetGpus = latencyTarget(snapshot, brain.capacity, nowMs);
  if (targetGpus === 0) return;
  const kept = brain.capacity.reserved.byJob.get(LATENCY);
  const free = gpusNow(run).open + (kept === undefined ? 0 : freeGpusIn(heads, kept));
  const stock = { targetGpus, gpus: free + onOrderGpus(snapshot) };
  if (!isLow(stock)) return;
  const preemption = preemptionOf(run);
  if (preemption === undefined) return;
  const plan = planBridge(stock, scene, { preemption, place: policies.place });
  run.candidates += plan.work;
  run.evict.push(...plan.evict);
  run.evictReserve.push(...plan.reserve);
  wakeAt(run, plan.wakeAtMs);
  if (gpuCountOf(plan.reserve.flatMap(({ gpus }) => gpus)) === 0) run.isShortOfVictims = true;
}

/** Whether a cycle has something to do for it although nobody waits. */
export const mayRefill = ({
  snapshot,
  options: { policies },
}: Pick<CycleRun, "snapshot" | "options">): boolean =>
  policies.hasLatencyReserve === true &&
  policies.isPreempting === true &&
  snapshot.latencyDemand !== undefined;
