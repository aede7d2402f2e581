/**
 * @file Which jobs that started smaller restart at full size: those that asked for it, when there is room and no request is due.
 *
 * Scaling up is an eviction for the job's own sake: it writes a checkpoint, stops, and asks again; its whole gang is reserved for it
 * meanwhile (`keep`). So it costs as much as any eviction, and pays only when much is won: the job has run for its protected
 * time, and at least for `MIN_RUN_MS`, its place for the whole gang is free but for its own GPUs, and it makes more progress there. Requests
 * that could use GPUs within their due go first, because the job can go on as it is. A job above its due after that may be preempted like
 * any other. The oldest lease comes first; at most `MAX_GROWING` grow at the same time, so that a burst of free GPUs is not all spent on
 * checkpoints. Cost: O(leases) when no job grows; else a placement for each candidate, at most `MAX_TRIALS`.
 */

import { gpuCountOf, isShrunk, type Lease } from "../../domain/lease/lease.ts";
import type { EvictItem, PendingRequest, ReserveItem } from "../../domain/lease/plan.ts";
import { preemptionOf } from "../ledger/apply/apply-evictions.ts";
import { largestAt } from "../capacity/capacity.ts";
import { tryOut } from "../capacity/trial.ts";
import { noteRestarted } from "./account.ts";
import { lossOf } from "./eviction-cost.ts";
import { checkGrant, smallestSize } from "../ledger/rules/grant-check.ts";
import { fitsOf, type CycleView } from "../admission/feasibility.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { isSpared } from "../ledger/rules/queue-holds.ts";
import type { PreemptionContext } from "./plan-preemption.ts";
import { progressOf } from "../admission/gang-size.ts";
import { demandOf, freeHosts } from "../admission/try-start.ts";
import { dueRoom } from "./victim-choice.ts";

/** A job that has just started is not restarted. */
export const MIN_RUN_MS = 60_000;
const MAX_GROWING = 4;
const MAX_TRIALS = 8;

export interface GrowthPlan {
  readonly evict: readonly EvictItem[];
  readonly reserve: readonly ReserveItem[];
  readonly work: number;
}

/** On the capacity with the grants of the cycle, which is left as it was. */
export function planGrowth(view: CycleView, context: PreemptionContext): GrowthPlan {
  const { ledger, nowMs, taken } = context.preemption;
  const able = [...ledger.leases.values()].filter(
    (lease) => !taken.has(lease.id) && mayGrow(lease, ledger, nowMs),
  );
  const growing = [...ledger.leases.values()].filter(
    ({ eviction, jobId, state }) => eviction?.forJob === jobId && state !== "vacating",
  );
  const evict: EvictItem[] = [];
  const reserve: ReserveItem[] = [];
  let work = able.length;
  if (able.length === 0 || isAnyoneDue(context)) return { evict, reserve, work };
  for (const lease of able.slice(0, MAX_TRIALS)) {
    // GPUs that are reserved for one are not there for the next: one a cycle is enough.
    if (growing.length >= MAX_GROWING || evict.length > 0) break;
    const placed = placeWhole(lease, view, context);
    work += placed.work;
    if (placed.gpus === undefined) continue;
    const { gpus } = placed;
    if (progressOf(gpus, view.capacity) <= progressOf(lease.gpus, view.capacity)) continue;
    const lostGpuSeconds = lossOf(lease, nowMs);
    const reason = `it may go on with ${gpuCountOf(gpus)} instead of ${gpuCountOf(lease.gpus)} GPUs, and no request is due`;
    evict.push({ kind: "evict", lease: lease.id, forJob: lease.jobId, lostGpuSeconds, reason });
    reserve.push({ jobId: lease.jobId, gpus, kind: "keep" });
    noteRestarted(context.preemption, lease);
  }
  return { evict, reserve, work };
}

function mayGrow(lease: Lease, { requests, reservations, holds }: Ledger, nowMs: number): boolean {
  const { state, jobId, eviction, isUnconfirmed, slots, opportunistic } = lease;
  if (!isShrunk(lease) || state !== "held" || eviction !== undefined) return false;
  if (opportunistic !== undefined || isSpared(holds, lease)) return false;
  if (isUnconfirmed === true || slots !== undefined) return false;
  const protectedMs = Math.max(MIN_RUN_MS, preemptionOf(lease).minRuntimeMs);
  return (
    nowMs >= lease.grantedAtMs + protectedMs &&
    !requests.has(jobId) &&
    reservations?.has(jobId) !== true
  );
}

/** Whether some request would be within its due with its smallest size. */
function isAnyoneDue({ preemption: { ledger, holdings } }: PreemptionContext): boolean {
  for (const request of ledger.requests.values()) {
    const code = ledger.reasons.get(request.jobId)?.code;
    if (code === "NoMatchingFlavor" || code === "ExceedsMaxQuota") continue;
    if (dueRoom(request, holdings) >= smallestSize(request.gang)) return true;
  }
  return false;
}

/** The place of its whole gang without its lease. */
function placeWhole(
  lease: Lease,
  view: CycleView,
  { place, preemption: { ledger, nowMs } }: PreemptionContext,
): { readonly gpus?: ReserveItem["gpus"]; readonly work: number } {
  const { capacity } = view;
  const request = whole(lease, nowMs);
  if (request === undefined) return { work: 1 };
  const wanted = request.gang.gpus;
  return tryOut(capacity, (trial) => {
    trial.removeLease(lease);
    const fitting = fitsOf(request, view).filter(
      ({ type, room }) => Math.min(largestAt(capacity, type, "now"), room) >= wanted,
    );
    if (fitting.length === 0) return { work: 1 };
    const demand = demandOf(request, wanted, view);
    const { gpus, candidates } = place(demand, freeHosts(fitting, capacity), capacity);
    const { index, usage, reserved } = capacity;
    const terms = { index, usage, reserved, hostStatuses: ledger.hosts, nowMs };
    const isGood = gpus !== undefined && checkGrant(request, { gpus }, terms) === undefined;
    return isGood ? { gpus, work: candidates } : { work: candidates };
  });
}

/** The request that its job will make after the restart. */
function whole(lease: Lease, nowMs: number): PendingRequest | undefined {
  const { jobId, runId, seq, tenant, class: jobClass, terms } = lease;
  if (terms === undefined) return undefined;
  const key = { jobId, runId, seq: seq + 1, name: jobId, tenant, class: jobClass };
  return { ...key, ...terms, requestedAtMs: nowMs, arrival: 0 };
}
