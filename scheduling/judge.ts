/**
 * @file Whether a request starts now, at which size, or by which code it waits.
 *
 * Of the sizes that are acceptable now and fit into what is free and set apart for nobody else, the one that makes most progress is taken,
 * if it is worth it (productive-size.ts); a size that is not does not fit in what follows, but for `ever` and `idle`. Otherwise the first
 * code of this list that holds is the answer; the levels are those of capacity.ts, each within the quota:
 *   NoMatchingFlavor        no size that ever becomes acceptable fits `ever`, quotas aside
 *   ExceedsMaxQuota         none fits `ever` within the tenant's limits
 *   WaitingForHosts         none that is acceptable now fits `idle`; WaitingForGpus if none fits `ever` either, but a smaller
 *                           one will once the gang timeout is over
 *   WaitingForQuota         none fits `idle` in what is left of the tenant's quota, less what earlier jobs of the tenant wait for
 *   WaitingForPreempted     others are giving up GPUs for it
 *   BehindEarlierJob        one would fit if nothing were set apart for others
 *   WaitingForPower         one would fit now if watts did not matter
 *   TopologyPlacementFailed enough GPUs of one type are free, but not in the shape that is asked for
 *   WaitingForGpus          else
 * Cost: O(offers).
 */

import type { PendingCode } from "../domain/codes.ts";
import type { Reservation } from "../domain/lease.ts";
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
import { canShrink, largestAcceptable, shrinkAtMs, smallestSize } from "./feasibility.ts";
import { quotaLimit } from "./limits.ts";
import { moreProductive, productiveSize, type SizeOffer } from "./productive-size.ts";
import { heldUnder } from "./usage.ts";

/** What a cycle can find; the other codes are the job's own. */
export type WaitCode = Exclude<
  PendingCode,
  "OnHold" | "PendingEvaluation" | "NoFleet" | "PatienceOver"
>;

/** For these nothing but another fleet, quota or job helps. */
export const isHopeless = (code: PendingCode): boolean =>
  code === "NoMatchingFlavor" || code === "ExceedsMaxQuota";

/** For these it helps that leases end: who waits so is served in turn. */
export const isServedInTurn = (code: WaitCode): boolean =>
  code === "BehindEarlierJob" ||
  code === "WaitingForPower" ||
  code === "TopologyPlacementFailed" ||
  code === "WaitingForGpus";

export interface Scene {
  readonly capacity: Capacity;
  readonly claims: Claims;
  readonly nowMs: number;
}

export type Verdict = Start | Wait;

export interface Start {
  readonly kind: "start";
  readonly gpus: number;
  /** Those that can hold this many GPUs, in the fleet's order. */
  readonly prospects: readonly Prospect[];
  readonly work: number;
}

export interface Wait {
  readonly kind: "wait";
  readonly code: WaitCode;
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

/** `own`: what is set apart for it, which is taken off the reservations while it is judged. */
export function judge(
  request: PendingRequest,
  scene: Scene,
  own?: Pick<Reservation, "kind">,
): Verdict {
  const prospects = prospectsOf(request, scene);
  const work = workOf(prospects);
  const within = ({ type, room }: Prospect): number =>
    Math.min(largestAt(scene.capacity, type, "now"), room);
  let best: SizeOffer | undefined;
  for (const prospect of prospects)
    best = moreProductive(best, productiveSize(request, prospect, "now", scene));
  if (best === undefined) return waitOf(request, scene, own, prospects);
  const { gpus } = best;
  const able = prospects.filter((prospect) => within(prospect) >= gpus);
  return { kind: "start", gpus, prospects: able, work };
}

/** The verdict on a request that is known not to fit: it depends on nobody's reservation. */
export function waitOf(
  request: PendingRequest,
  scene: Scene,
  own: Pick<Reservation, "kind"> | undefined,
  prospects: readonly Prospect[] = prospectsOf(request, scene),
): Wait {
  const code = codeOf(request, { ...scene, prospects, own });
  return { kind: "wait", code, work: 2 * workOf(prospects) };
}

/** The smallest size that is acceptable now. */
export const leastSizeNow = (request: PendingRequest, nowMs: number): number =>
  nowMs < shrinkAtMs(request) ? request.gang.gpus : smallestSize(request.gang);

/** The verdict on a request that fits by count, but for which the policy found no way: its shape is what fails. */
export const misfit = (work: number): Wait => ({
  kind: "wait",
  code: "TopologyPlacementFailed",
  work,
});

/** When smaller sizes become acceptable, if they matter and that is still to come. */
export function wakeAtOf(request: PendingRequest, code: WaitCode, nowMs: number): number {
  const atMs = shrinkAtMs(request);
  return !isHopeless(code) && nowMs < atMs && canShrink(request.gang) ? atMs : Infinity;
}

/** What the request will count against the quotas of its tenant, by their keys. */
export function quotaWish(request: PendingRequest, scene: Scene): ReadonlyMap<string, number> {
  const wanted = new Map<string, number>();
  for (const { type, quotaKey, limit } of prospectsOf(request, scene)) {
    if (quotaKey === undefined) continue;
    const idle = largestAt(scene.capacity, type, "idle");
    const size = largestAcceptable(request, Math.min(idle, limit), scene.nowMs);
    if (size !== undefined) wanted.set(quotaKey, Math.max(size, wanted.get(quotaKey) ?? 0));
  }
  return wanted;
}

export function prospectsOf(request: PendingRequest, scene: Scene): readonly Prospect[] {
  const { capacity, claims } = scene;
  const { tenant } = request;
  const rule = capacity.index.tenants.get(tenant);
  return optionsFor(capacity, request, scene.nowMs).types.map((type) => {
    const quota = quotaLimit(rule, type.gpuType);
    if (quota === undefined) return { type, limit: Infinity, room: Infinity };
    const { key, gpus: limit } = quota;
    const claimed = quotaClaim(claims, tenant, key).gpus;
    const room = limit - heldUnder(capacity.usage, tenant, key) - claimed;
    return { type, quotaKey: key, limit, room };
  });
}

function codeOf(
  request: PendingRequest,
  {
    capacity,
    nowMs,
    prospects,
    own,
  }: Scene & {
    readonly prospects: readonly Prospect[];
    readonly own: Pick<Reservation, "kind"> | undefined;
  },
): WaitCode {
  const fits = (level: Level, within: "limit" | "room" | "any", atMs = nowMs): boolean => {
    return prospects.some((prospect) => {
      const room = within === "any" ? Infinity : prospect[within];
      const offer = productiveSize(request, { type: prospect.type, room }, level, {
        capacity,
        nowMs: atMs,
      });
      return offer !== undefined;
    });
  };
  const codeOfHosts = (): WaitCode | undefined => {
    if (!fits("ever", "any", Infinity)) return "NoMatchingFlavor";
    if (!fits("ever", "limit", Infinity)) return "ExceedsMaxQuota";
    if (fits("idle", "limit")) return undefined;
    const isForLater = !fits("ever", "limit") && fits("idle", "limit", Infinity);
    return isForLater ? "WaitingForGpus" : "WaitingForHosts";
  };
  const ofHosts = knownOfHosts(request, { capacity, prospects, nowMs }, codeOfHosts);
  if (ofHosts !== undefined) return ofHosts;
  if (!fits("idle", "room")) return "WaitingForQuota";
  if (own?.kind === "preemption") return "WaitingForPreempted";
  if (fits("unleased", "room")) return "BehindEarlierJob";
  if (fits("unpowered", "room")) return "WaitingForPower";
  const free = prospects.map(({ type, room }) => Math.min(freeGpus(capacity, type), room));
  return largestAcceptable(request, Math.max(0, ...free), nowMs) === undefined
    ? "WaitingForGpus"
    : "TopologyPlacementFailed";
}

/**
 * What hosts alone say, whatever is leased or set apart: the memory of a pure function, by size, for tenants without a quota. It is asked
 * for with every request that waits, and changes only when a host comes or goes, or a gang's timeout is over.
 */
function knownOfHosts(
  request: PendingRequest,
  {
    capacity: { hostVersion },
    prospects,
    nowMs,
  }: Pick<Scene, "capacity" | "nowMs"> & { readonly prospects: readonly Prospect[] },
  codeOfHosts: () => WaitCode | undefined,
): WaitCode | undefined {
  const [first] = prospects;
  const { gpus, min, shapes } = request.gang;
  const isLimited = prospects.some(({ limit }) => limit < Infinity);
  if (first === undefined || shapes !== undefined || isLimited) return codeOfHosts();
  const notes = HOST_CODES.get(first.type) ?? new Map<string, HostCode>();
  HOST_CODES.set(first.type, notes);
  const key = `${request.class} ${gpus} ${min} ${nowMs < shrinkAtMs(request) ? "whole" : "any"}`;
  const known = notes.get(key);
  if (known?.hostVersion === hostVersion) return known.code;
  const code = codeOfHosts();
  notes.set(key, { hostVersion, code });
  return code;
}

/** By the first type of what may serve the request: those of one capacity alone. */
const HOST_CODES = new WeakMap<TypeOptions, Map<string, HostCode>>();

interface HostCode {
  readonly hostVersion: number;
  readonly code: WaitCode | undefined;
}

/** Free GPUs of one type on suitable hosts, wherever they are and whomever they are set apart for. */
export const freeGpus = (capacity: Capacity, type: TypeOptions): number =>
  offersAt(capacity, type, "unpowered").reduce((sum, { gpus }) => sum + gpus, 0);

const workOf = (prospects: readonly Prospect[]): number =>
  prospects.reduce((sum, { type }) => sum + type.groups.length, 1);
