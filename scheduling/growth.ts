/**
 * @file Which jobs that started smaller are started again at full size: those that asked for it, when there is room and nobody waits
 * who is due.
 *
 * Growing is an eviction for the job's own sake: it writes a checkpoint, stops, and asks again; its whole gang is set apart for it
 * meanwhile (`keep`). So it costs what any eviction costs, and is worth it only when much is won: the job has run for its protected
 * time, and at least for `MIN_RUN_MS`, and its place for the whole gang is free but for its own GPUs, and it makes more progress there. Who waits and could use GPUs within
 * its due goes first, because the job can go on as it is. What grew is above its due like any other when others come.
 * The oldest lease comes first; at most `MAX_GROWING` grow at the same time, so that a burst of free GPUs is not all spent on checkpoints.
 * Cost: O(leases) when nothing grows; else a placement for each that is looked at, at most `MAX_TRIALS`.
 */

import { gpuCountOf, isShrunk, type Lease } from "../domain/lease.ts";
import type { EvictItem, PendingRequest, ReserveItem } from "../domain/plan.ts";
import { preemptionOf } from "./apply-preempt.ts";
import { largestAt, noteLease } from "./capacity.ts";
import { lossOf } from "./evictable.ts";
import { checkGrant, smallestSize } from "./feasibility.ts";
import { prospectsOf, type Scene } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import type { PreemptionContext } from "./preemption.ts";
import { progressOf } from "./productive-size.ts";
import { demandOf, freeHosts } from "./start.ts";
import { dueRoom } from "./victims.ts";

/** A job that has just started is not stopped for growing. */
export const MIN_RUN_MS = 60_000;
export const MAX_GROWING = 4;
const MAX_TRIALS = 8;

export interface GrowthPlan {
  readonly evict: readonly EvictItem[];
  readonly reserve: readonly ReserveItem[];
  readonly work: number;
}

/** On the capacity as the cycle leaves it, with its grants; which is left as it was. */
export function planGrowth(scene: Scene, context: PreemptionContext): GrowthPlan {
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
    // What is set apart for one is not there for the next: one a cycle is enough.
    if (growing.length >= MAX_GROWING || evict.length > 0) break;
    const placed = placeWhole(lease, scene, context);
    work += placed.work;
    if (placed.gpus === undefined) continue;
    const { gpus } = placed;
    if (progressOf(gpus, scene.capacity) <= progressOf(lease.gpus, scene.capacity)) continue;
    const lostGpuSeconds = lossOf(lease, nowMs);
    const reason = `it may go on with ${gpuCountOf(gpus)} instead of ${gpuCountOf(lease.gpus)} GPUs, and nobody waits who is due`;
    evict.push({ kind: "evict", lease: lease.id, forJob: lease.jobId, lostGpuSeconds, reason });
    reserve.push({ jobId: lease.jobId, gpus, kind: "keep" });
    taken.add(lease.id);
  }
  return { evict, reserve, work };
}

function mayGrow(lease: Lease, { requests, reservations }: Ledger, nowMs: number): boolean {
  const { state, jobId, eviction, isDoubted, slots, loan } = lease;
  if (!isShrunk(lease) || state !== "held" || eviction !== undefined) return false;
  if (loan !== undefined) return false;
  if (isDoubted === true || slots !== undefined) return false;
  const protectedMs = Math.max(MIN_RUN_MS, preemptionOf(lease).minRuntimeMs);
  return (
    nowMs >= lease.grantedAtMs + protectedMs &&
    !requests.has(jobId) &&
    reservations?.has(jobId) !== true
  );
}

/** Whether somebody waits who would not be above its due with the least that it takes. */
function isAnyoneDue({ preemption: { ledger, holdings } }: PreemptionContext): boolean {
  for (const request of ledger.requests.values()) {
    const code = ledger.reasons.get(request.jobId)?.code;
    if (code === "NoMatchingFlavor" || code === "ExceedsMaxQuota") continue;
    if (dueRoom(request, holdings) >= smallestSize(request.gang)) return true;
  }
  return false;
}

/** The place of its whole gang, were its lease not there. */
function placeWhole(
  lease: Lease,
  scene: Scene,
  { place, preemption: { ledger, nowMs } }: PreemptionContext,
): { readonly gpus?: ReserveItem["gpus"]; readonly work: number } {
  const { capacity } = scene;
  const request = whole(lease, nowMs);
  if (request === undefined) return { work: 1 };
  const wanted = request.gang.gpus;
  noteLease(capacity, lease, undefined);
  const fitting = prospectsOf(request, scene).filter(
    ({ type, room }) => Math.min(largestAt(capacity, type, "now"), room) >= wanted,
  );
  const found =
    fitting.length === 0
      ? { candidates: 1 }
      : place(demandOf(request, wanted, capacity), freeHosts(fitting), capacity);
  const { gpus, candidates } = { gpus: undefined, ...found };
  const { index, usage, reserved } = capacity;
  const terms = { index, usage, reserved, standings: ledger.hosts, nowMs };
  const isGood = gpus !== undefined && checkGrant(request, { gpus }, terms) === undefined;
  noteLease(capacity, undefined, lease);
  return isGood ? { gpus, work: candidates } : { work: candidates };
}

/** As its job will ask again. */
function whole(lease: Lease, nowMs: number): PendingRequest | undefined {
  const { jobId, runId, seq, tenant, class: jobClass, terms } = lease;
  if (terms === undefined) return undefined;
  const key = { jobId, runId, seq: seq + 1, name: jobId, tenant, class: jobClass };
  return { ...key, ...terms, requestedAtMs: nowMs, arrival: 0 };
}
