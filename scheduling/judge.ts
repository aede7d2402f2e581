/**
 * @file Whether a request starts now, at which size and with whose offers, or by which code it waits and what it claims.
 *
 * The largest size that is acceptable now and fits into clusters that nobody before it claims is taken. Otherwise the first
 * code of this list that holds is the answer; `ever`, `idle`, `now` are the levels of capacity.ts, each within the quota:
 *   NoMatchingFlavor        no size that ever becomes acceptable fits `ever`, quotas aside
 *   ExceedsMaxQuota         none fits `ever` within the tenant's limits
 *   WaitingForHosts         none that is acceptable now fits `idle`; WaitingForGpus if none fits `ever` either, but a smaller
 *                           one will once the gang timeout is over
 *   WaitingForQuota         none fits `idle` in what is left of the tenant's quota, less what earlier jobs of the tenant wait for
 *   BehindEarlierJob        one fits now, but in clusters that an earlier job waits for
 *   WaitingForPower         one would fit now if watts did not matter
 *   TopologyPlacementFailed enough GPUs of one type are free, but not in the shape that is asked for
 *   WaitingForGpus          else
 * Where nothing fits `idle`, nothing is claimed: no end of another job would let it start. WaitingForQuota claims room in the quota, so that
 * later jobs of its tenant do not pass it for ever, and no cluster. The rest claim both the room and the clusters in which they
 * fit `idle`. Cost: O(offers).
 */

import type { PendingCode } from "../domain/codes.ts";
import type { ClusterId } from "../domain/ids.ts";
import type { PendingRequest } from "../domain/plan.ts";
import {
  largestAt,
  offersAt,
  optionsFor,
  type Capacity,
  type Level,
  type TypeOptions,
} from "./capacity.ts";
import { quotaClaim, type Claims } from "./claims.ts";
import { canShrink, largestAcceptable, shapeOf, shrinkAtMs, smallestSize } from "./feasibility.ts";
import type { Holders } from "./holders.ts";
import { quotaLimit } from "./limits.ts";
import {
  largestGang,
  type ClusterOffer,
  type PlacementDemand,
} from "./placement/placement-policy.ts";
import { heldUnder } from "./usage.ts";

/** What a cycle can find; the other codes are the job's own. */
export type WaitCode = Exclude<PendingCode, "OnHold" | "PendingEvaluation" | "NoFleet">;

/** For these nothing but another fleet, quota or job helps. */
export const isHopeless = (code: PendingCode): boolean =>
  code === "NoMatchingFlavor" || code === "ExceedsMaxQuota";

export interface Scene {
  readonly capacity: Capacity;
  readonly claims: Claims;
  readonly holders: Holders;
  readonly nowMs: number;
}

export type Verdict = Start | Wait;

export interface Start {
  readonly kind: "start";
  readonly demand: PlacementDemand;
  readonly types: readonly TypeOptions[];
  /** Unclaimed, of the types that can hold this many GPUs, in order of rank. */
  readonly offers: readonly ClusterOffer[];
  readonly work: number;
}

export interface Wait {
  readonly kind: "wait";
  readonly code: WaitCode;
  readonly clusters: ReadonlySet<ClusterId>;
  readonly quota: ReadonlyMap<string, number>;
  /** When smaller sizes become acceptable, if they matter and that is still to come. */
  readonly wakeAtMs?: number;
  readonly work: number;
}

/** One GPU type, as one request sees it. */
export interface Prospect {
  readonly type: TypeOptions;
  readonly quotaKey?: string;
  /** The tenant's limit in GPUs; infinite when there is none. */
  readonly limit: number;
  /** What is left of it after the leases, and after the claims of earlier jobs of the tenant. */
  readonly room: number;
}

export function judge(request: PendingRequest, scene: Scene): Verdict {
  const prospects = prospectsOf(request, scene);
  const { clusters } = scene.claims;
  let most = 0;
  const open = prospects.map(({ type, room }) => {
    const now = offersAt(scene.capacity, type, "now");
    const offers = now.filter(({ cluster }) => !clusters.has(cluster));
    const gpus = Math.min(largestGang(type.shape, offers), room);
    most = Math.max(most, gpus);
    return { offers, gpus };
  });
  const gpus = largestAcceptable(request, most, scene.nowMs);
  if (gpus === undefined)
    return waitOn(request, scene, prospects, codeOf(request, scene, prospects));
  return {
    kind: "start",
    demand: { ...shapeOf(request.constraints), gpus },
    types: prospects.map(({ type }) => type),
    offers: open
      .flatMap((each) => (each.gpus >= gpus ? each.offers : []))
      .sort((a, b) => a.rank - b.rank),
    work: workOf(prospects),
  };
}

/** The verdict on a request that fits by count, but for which the policies found no way: its shape is what fails. */
export const misfit = (request: PendingRequest, scene: Scene): Wait =>
  waitOn(request, scene, prospectsOf(request, scene), "TopologyPlacementFailed");

function waitOn(
  request: PendingRequest,
  { capacity, nowMs }: Scene,
  prospects: readonly Prospect[],
  code: WaitCode,
): Wait {
  const clusters = new Set<ClusterId>();
  const quota = new Map<string, number>();
  for (const { type, quotaKey, limit, room } of prospects) {
    const idle = largestAt(capacity, type, "idle");
    const size = largestAcceptable(request, Math.min(idle, limit), nowMs);
    if (size === undefined) continue;
    if (quotaKey !== undefined) quota.set(quotaKey, Math.max(size, quota.get(quotaKey) ?? 0));
    if (largestAcceptable(request, Math.min(idle, room), nowMs) === undefined) continue;
    for (const offer of offersAt(capacity, type, "idle")) {
      if (couldServe(request, type, offer, nowMs)) clusters.add(offer.cluster);
    }
  }
  const wakeAtMs = shrinkAtMs(request);
  return {
    kind: "wait",
    code,
    clusters,
    quota,
    ...(!isHopeless(code) && canShrink(request.gang) && nowMs < wakeAtMs && { wakeAtMs }),
    work: 2 * workOf(prospects),
  };
}

export function prospectsOf(request: PendingRequest, scene: Scene): readonly Prospect[] {
  const { capacity, claims } = scene;
  const { tenant } = request;
  const rule = capacity.index.tenants.get(tenant);
  return optionsFor(capacity, request).types.map((type) => {
    const quota = quotaLimit(rule, type.gpuType);
    if (quota === undefined) return { type, limit: Infinity, room: Infinity };
    const { key, gpus: limit } = quota;
    const room =
      limit - heldUnder(capacity.usage, tenant, key) - quotaClaim(claims, tenant, key).gpus;
    return { type, quotaKey: key, limit, room };
  });
}

function codeOf(request: PendingRequest, scene: Scene, prospects: readonly Prospect[]): WaitCode {
  const { capacity, nowMs } = scene;
  const fits = (level: Level, within: "limit" | "room" | "any", atMs = nowMs): boolean => {
    let most = 0;
    for (const prospect of prospects) {
      const bound = within === "any" ? Infinity : prospect[within];
      most = Math.max(most, Math.min(largestAt(capacity, prospect.type, level), bound));
    }
    return largestAcceptable(request, most, atMs) !== undefined;
  };
  if (!fits("ever", "any", Infinity)) return "NoMatchingFlavor";
  if (!fits("ever", "limit", Infinity)) return "ExceedsMaxQuota";
  if (!fits("idle", "limit")) {
    const isForLater = !fits("ever", "limit") && fits("idle", "limit", Infinity);
    return isForLater ? "WaitingForGpus" : "WaitingForHosts";
  }
  if (!fits("idle", "room")) return "WaitingForQuota";
  if (fits("now", "room")) return "BehindEarlierJob";
  if (fits("unpowered", "room")) return "WaitingForPower";
  const free = prospects.map(({ type, room }) => Math.min(freeGpus(capacity, type), room));
  return largestAcceptable(request, Math.max(0, ...free), nowMs) === undefined
    ? "WaitingForGpus"
    : "TopologyPlacementFailed";
}

/** Free GPUs of one type on suitable hosts, wherever they are. */
export const freeGpus = (capacity: Capacity, type: TypeOptions): number =>
  offersAt(capacity, type, "unpowered").reduce((sum, { gpus }) => sum + gpus, 0);

/** Whether the cluster could hold the gang, or a part of it where it may span clusters. */
function couldServe(
  request: PendingRequest,
  { shape }: TypeOptions,
  offer: ClusterOffer,
  nowMs: number,
): boolean {
  if (shape.maxClusters > 1) return offer.gpus > 0;
  const smallest = nowMs < shrinkAtMs(request) ? request.gang.gpus : smallestSize(request.gang);
  return largestGang(shape, [offer]) >= smallest;
}

const workOf = (prospects: readonly Prospect[]): number =>
  prospects.reduce((sum, { type }) => sum + type.groups.length, 1);
