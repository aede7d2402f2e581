/**
 * @file Whether a request can start now, at which size, or by which code it waits.
 *
 * Of the sizes that are acceptable now and fit into GPUs that are free and reserved for no other job, the one with the most progress is taken,
 * if it reaches the floor (gang-size.ts). Below, a size that misses the floor does not fit, except at `ever` and `idle`. Otherwise the first
 * code of this list that holds is the answer; the levels are those of capacity.ts, each within the quota:
 *   NoMatchingFlavor        no size that ever becomes acceptable fits `ever`, quotas aside
 *   ExceedsMaxQuota         none fits `ever` within the tenant's limits
 *   WaitingForHosts         none that is acceptable now fits `idle`; WaitingForGpus if none fits `ever` either, but a smaller
 *                           one will once the gang timeout is over
 *   WaitingForQuota         none fits `idle` in the rest of the tenant's quota, less the claims of the tenant's earlier jobs
 *   WaitingForPreempted     other jobs are giving up GPUs for it
 *   WaitingForReplacement   instead of those below, where GPUs are kept for a gang that has lost a host (the admission pass says it)
 *   BehindEarlierJob        one would fit if no GPU were reserved for another job
 *   WaitingForPower         one would fit now if watts did not matter
 *   WaitingForResources     one would fit if no lease held more than its share of hosts' processors and memory, and it took no more itself
 *   TopologyPlacementFailed enough GPUs of one type are free, but not in the requested shape
 *   WaitingForGpus          else
 * Cost: O(types) where no floor applies, else O(offers).
 */

import type { PendingCode } from "../../domain/values/codes.ts";
import type { Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { Capacity, Level, TypeOptions } from "../capacity/capacity-state.ts";
import { largestAt, largestUnmetered, offersAt, optionsFor } from "../capacity/capacity.ts";
import { claimedGpus, type Claims } from "./quota-claims.ts";
import {
  canShrink,
  largestAcceptable,
  shrinkAtMs,
  smallestSize,
} from "../ledger/rules/grant-check.ts";
import { quotaLimit } from "../ledger/rules/limits.ts";
import { hasFloor, moreProductive, productiveSize, type SizeOffer } from "./gang-size.ts";
import { heldUnder } from "../ledger/rules/usage.ts";

/** The codes that a cycle can find; the others are the job's own. */
export type WaitCode = Exclude<
  PendingCode,
  | "OnHold"
  | "WaitingForJobs"
  | "PendingEvaluation"
  | "NoFleet"
  | "PatienceOver"
  | "QueueFull"
  | "QueueOnHold"
>;

/** Only another fleet, quota or job would help. */
export const isHopeless = (code: PendingCode): boolean =>
  code === "NoMatchingFlavor" || code === "ExceedsMaxQuota";

/** The end of leases helps, so the request is served in queue order and may reserve GPUs. */
export const isServedInTurn = (code: WaitCode): boolean =>
  code === "BehindEarlierJob" ||
  code === "WaitingForPower" ||
  code === "WaitingForResources" ||
  code === "TopologyPlacementFailed" ||
  code === "WaitingForGpus";

export interface CycleView {
  readonly capacity: Capacity;
  readonly claims: Claims;
  readonly nowMs: number;
}

export type Feasibility = Start | Wait;

export interface Start {
  readonly kind: "start";
  readonly gpus: number;
  /** The GPU types that can hold this many GPUs, in the fleet's order. */
  readonly clusterFits: readonly ClusterFit[];
  readonly work: number;
}

export interface Wait {
  readonly kind: "wait";
  readonly code: WaitCode;
  readonly work: number;
}

/** One GPU type, as one request sees it. */
export interface ClusterFit {
  readonly type: TypeOptions;
  readonly quotaKey?: string;
  /** The tenant's limit in GPUs; infinite when there is none. */
  readonly limit: number;
  /** The rest of the limit after the leases, and after the claims of earlier jobs of the tenant. */
  readonly room: number;
}

/** `own`: the request's reservation, which is off the capacity during the check. */
export function checkFeasibility(
  request: PendingRequest,
  view: CycleView,
  own?: Pick<Reservation, "kind">,
): Feasibility {
  const { capacity, nowMs } = view;
  const clusterFits = fitsOf(request, view);
  const least = leastSizeNow(request, nowMs);
  let best: SizeOffer | undefined;
  for (const { type, room } of clusterFits)
    if (least <= Math.min(largestAt(capacity, type, "now"), room))
      best = moreProductive(best, productiveSize(request, { type, room, level: "now" }, view));
  if (best === undefined) return waitOf(request, view, { own, clusterFits });
  const { gpus } = best;
  const able = clusterFits.filter(
    ({ type, room }) => Math.min(largestAt(capacity, type, "now"), room) >= gpus,
  );
  return { kind: "start", gpus, clusterFits: able, work: workOf(clusterFits) };
}

/** The code of a request that is known not to fit. It depends on no reservation. */
export function waitOf(
  request: PendingRequest,
  view: CycleView,
  {
    own,
    clusterFits = fitsOf(request, view),
  }: {
    readonly own: Pick<Reservation, "kind"> | undefined;
    readonly clusterFits?: readonly ClusterFit[];
  },
): Wait {
  const code = codeOf(request, view, { clusterFits, own });
  return { kind: "wait", code, work: 2 * workOf(clusterFits) };
}

/** The smallest size that is acceptable now. */
export const leastSizeNow = (request: PendingRequest, nowMs: number): number =>
  nowMs < shrinkAtMs(request) ? request.gang.gpus : smallestSize(request.gang);

/** For a request that fits by count, but for which the policy found no place: its shape fails. */
export const misfit = (work: number): Wait => ({
  kind: "wait",
  code: "TopologyPlacementFailed",
  work,
});

/** The time at which smaller sizes become acceptable, if that matters and is still to come; else infinite. */
export function wakeAtOf(request: PendingRequest, code: WaitCode, nowMs: number): number {
  const atMs = shrinkAtMs(request);
  return !isHopeless(code) && nowMs < atMs && canShrink(request.gang) ? atMs : Infinity;
}

/** The GPUs that the request will count against the quotas of its tenant, by their keys. */
export function quotaDemand(request: PendingRequest, view: CycleView): ReadonlyMap<string, number> {
  const wanted = new Map<string, number>();
  for (const { type, quotaKey, limit } of fitsOf(request, view)) {
    if (quotaKey === undefined) continue;
    const idle = largestAt(view.capacity, type, "idle");
    const size = largestAcceptable(request, Math.min(idle, limit), view.nowMs);
    if (size !== undefined) wanted.set(quotaKey, Math.max(size, wanted.get(quotaKey) ?? 0));
  }
  return wanted;
}

export function fitsOf(request: PendingRequest, view: CycleView): readonly ClusterFit[] {
  const { capacity, claims } = view;
  const { tenant } = request;
  const rule = capacity.index.tenants.get(tenant);
  return optionsFor(capacity, request, view.nowMs).types.map((type) => {
    const quota = quotaLimit(rule, type.gpuType);
    if (quota === undefined) return { type, limit: Infinity, room: Infinity };
    const { key, gpus: limit } = quota;
    const claimed = claimedGpus(claims, tenant, key);
    const room = limit - heldUnder(capacity.usage, tenant, key) - claimed;
    return { type, quotaKey: key, limit, room };
  });
}

function codeOf(
  request: PendingRequest,
  { capacity, nowMs }: CycleView,
  {
    clusterFits,
    own,
  }: {
    readonly clusterFits: readonly ClusterFit[];
    readonly own: Pick<Reservation, "kind"> | undefined;
  },
): WaitCode {
  const leastEver = smallestSize(request.gang);
  const leastNow = leastSizeNow(request, nowMs);
  const fits = (level: Level, within: "limit" | "room" | "any", least: number): boolean => {
    for (const fit of clusterFits) {
      const room = within === "any" ? Infinity : fit[within];
      if (least > Math.min(largestAt(capacity, fit.type, level), room)) continue;
      if (!hasFloor(request, level)) return true;
      const typeRoom = { type: fit.type, room, level };
      if (productiveSize(request, typeRoom, { capacity, nowMs }) !== undefined) return true;
    }
    return false;
  };
  if (!fits("ever", "any", leastEver)) return "NoMatchingFlavor";
  if (!fits("ever", "limit", leastEver)) return "ExceedsMaxQuota";
  if (!fits("idle", "limit", leastNow)) {
    const isForLater = !fits("ever", "limit", leastNow) && fits("idle", "limit", leastEver);
    return isForLater ? "WaitingForGpus" : "WaitingForHosts";
  }
  if (!fits("idle", "room", leastNow)) return "WaitingForQuota";
  if (own?.kind === "preemption") return "WaitingForPreempted";
  if (fits("unleased", "room", leastNow)) return "BehindEarlierJob";
  if (fits("unpowered", "room", leastNow)) return "WaitingForPower";
  if (isShortOfResources(leastNow, clusterFits, capacity)) return "WaitingForResources";
  let most = 0;
  for (const { type, room } of clusterFits)
    most = Math.max(most, Math.min(freeGpus(capacity, type), room));
  return leastNow > most ? "WaitingForGpus" : "TopologyPlacementFailed";
}

/** Whether GPUs that are in no lease would do, but for the processors and the memory of their hosts. */
const isShortOfResources = (
  least: number,
  clusterFits: readonly ClusterFit[],
  capacity: Capacity,
): boolean =>
  capacity.index.hasResources &&
  clusterFits.some(
    ({ type, room }) =>
      (type.need !== undefined || capacity.usage.uneven.size > 0) &&
      least > largestAt(capacity, type, "unpowered") &&
      least <= Math.min(largestUnmetered(type), room),
  );

/** Free GPUs of one type on suitable hosts, reserved or not. */
export const freeGpus = (capacity: Capacity, type: TypeOptions): number =>
  offersAt(capacity, type, "unpowered").reduce((sum, { gpus }) => sum + gpus, 0);

const workOf = (clusterFits: readonly ClusterFit[]): number =>
  clusterFits.reduce((sum, { type }) => sum + type.groups.length, 1);
