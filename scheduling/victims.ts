/**
 * @file Whose leases may be taken for a request, in the order of what that would cost.
 *
 * Somebody may be evicted who allows it, has run for its protected time, is not stopping already, and by whose loss nobody is
 * wronged, by either of two rights:
 *   due      the request's flows (its tenant's, and its class's where the victim is of another class) are not above their due
 *            shares after, and the victim's are not below theirs. Inside one flow nobody evicts anybody. What a tenant holds
 *            within its own quota falls to others within theirs alone.
 *   reclaim  the request's tenant is within its own quota of this GPU type after, and the victim's tenant not below its own: what
 *            was borrowed goes back to its owner.
 * Counted are the GPUs that the request takes, because the rest of a gang goes back to the queue at once, as does what is free
 * and too scattered for the request: a flow that could have it is not wronged. Any subset of the answer may be taken together: of flows
 * that could not give all that the request wants, only as many GPUs are named as they have above their dues.
 *
 * Loss: GPUs · min(time since the grant, since the last checkpoint, or what a checkpoint to order costs), in GPU-seconds. The
 * order is by loss per GPU that the request can use; then the ones that waste the fewest GPUs, then the latest granted.
 * Rights are judged once for all leases of one flow and GPU type. Cost: O(leases) to open; a choice is O(flows), in order O(k log k).
 */

import type { HostId, LeaseId } from "../domain/ids.ts";
import { gpuCountOf, type Lease } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { preemptionOf } from "./apply-preempt.ts";
import { isSuitable } from "./feasibility.ts";
import type { FleetIndex } from "./fleet-index.ts";
import { isSameClass, quotaKeyOf, surplusOf, type Holdings, type QuotaKey } from "./holdings.ts";
import { classFlow, tenantFlow } from "./queue/flow.ts";

/** What a checkpoint is taken to cost where it is not known better; its grace, where that is less. */
export const CHECKPOINT_COST_MS = 2_000;

export type Right = "due" | "reclaim";

export interface Victim {
  readonly lease: Lease;
  readonly gpus: number;
  readonly lostGpuSeconds: number;
  /** Its flow and GPU type: for all of one kind the rights are the same. */
  readonly kind: string;
}

/** All that may be evicted at this time, whoever asks. */
export interface VictimPool {
  readonly all: readonly Victim[];
  readonly byHost: ReadonlyMap<HostId, readonly Victim[]>;
  /** One of each kind. */
  readonly kinds: readonly Victim[];
}

export function openVictims(
  leases: Iterable<Lease>,
  { places }: FleetIndex,
  nowMs: number,
): VictimPool {
  const all: Victim[] = [];
  const byHost = new Map<HostId, Victim[]>();
  const kinds = new Map<string, Victim>();
  for (const lease of leases) {
    if (!isEvictable(lease, nowMs)) continue;
    const [part] = lease.gpus;
    const gpuType = part && places.get(part.host)?.host.gpuType;
    const victim: Victim = {
      lease,
      gpus: gpuCountOf(lease.gpus),
      lostGpuSeconds: lossOf(lease, nowMs),
      kind: `${tenantFlow(lease)} ${gpuType}`,
    };
    all.push(victim);
    kinds.set(victim.kind, victim);
    for (const { host } of lease.gpus) {
      const there = byHost.get(host);
      if (there === undefined) byHost.set(host, [victim]);
      else there.push(victim);
    }
  }
  return { all, byHost, kinds: [...kinds.values()] };
}

export interface VictimSearch {
  readonly holdings: Holdings;
  readonly pool: VictimPool;
  /** To be given up by this plan already. */
  readonly taken: ReadonlySet<LeaseId>;
  /** Of the kinds that the request can use, in no lease. */
  readonly freeGpus: () => number;
}

/** Whom a request may evict. */
export interface VictimChoice {
  /** Whether nobody of any kind may be taken: known at the cost of the kinds alone. */
  readonly isEmpty: () => boolean;
  readonly allows: (victim: Victim) => boolean;
  /** The cheapest first. */
  readonly ordered: () => readonly Victim[];
}

/** GPUs that may still be granted to the request's tenant before it has more than is due to it in the class. */
export const dueRoom = (request: PendingRequest, holdings: Holdings): number =>
  -surplusOf(holdings, tenantFlow(request));

/** For a request that wants so many GPUs, at most `dueRoom` by right of due. */
export function chooseVictims(
  request: PendingRequest,
  wantedGpus: number,
  right: Right,
  { holdings, pool, taken, freeGpus }: VictimSearch,
): VictimChoice {
  const limitsByKind = new Map<string, Limits>();
  let known: readonly Victim[] | undefined;
  let free: number | undefined;
  let members: ReadonlySet<Victim> | undefined;
  return { isEmpty, allows, ordered };

  function isEmpty(): boolean {
    return pool.kinds.every((victim) => limitsOf(victim) === undefined);
  }

  function allows(victim: Victim): boolean {
    if (taken.has(victim.lease.id) || victim.lease.jobId === request.jobId) return false;
    const limits = limitsOf(victim);
    if (limits === undefined) return false;
    if (limits.every(isAmple)) return true;
    members ??= new Set(ordered());
    return members.has(victim);
  }

  /** Whether all that the request wants may come from there. */
  function isAmple({ gpus }: Limit): boolean {
    return wantedGpus <= gpus + freeNow();
  }

  function freeNow(): number {
    return (free ??= freeGpus());
  }

  function ordered(): readonly Victim[] {
    return (known ??= inOrder());
  }

  function inOrder(): readonly Victim[] {
    const able = pool.all.filter(
      (victim) =>
        !taken.has(victim.lease.id) &&
        victim.lease.jobId !== request.jobId &&
        limitsOf(victim) !== undefined &&
        isUseful(request, victim.lease, holdings),
    );
    const useOf = ({ gpus }: Victim): number => Math.min(gpus, wantedGpus);
    able.sort(
      (a, b) =>
        a.lostGpuSeconds / useOf(a) - b.lostGpuSeconds / useOf(b) ||
        a.gpus - useOf(a) - (b.gpus - useOf(b)) ||
        b.lease.token - a.lease.token,
    );
    const spare = new Map<string, number>();
    return able.filter((victim) => {
      const limits = limitsOf(victim) ?? [];
      const isWithin = limits.every(
        (limit) => isAmple(limit) || (spare.get(limit.key) ?? limit.gpus) >= victim.gpus,
      );
      if (!isWithin) return false;
      for (const { key, gpus } of limits) spare.set(key, (spare.get(key) ?? gpus) - victim.gpus);
      return true;
    });
  }

  function limitsOf({ kind, lease }: Victim): Limits {
    if (limitsByKind.has(kind)) return limitsByKind.get(kind);
    const limits =
      tenantFlow(lease) === tenantFlow(request)
        ? undefined
        : right === "due"
          ? dueLimits(request, lease, { holdings, wantedGpus, freeGpus: freeNow })
          : reclaimLimits(request, lease, holdings);
    limitsByKind.set(kind, limits);
    return limits;
  }
}

/** Whether it may be taken from its job at all, from this time on. */
export const isEvictable = (lease: Lease, nowMs: number): boolean => evictableAtMs(lease) <= nowMs;

/** When the lease's protected time is over; infinite when it is never taken. */
export function evictableAtMs(lease: Lease): number {
  const { terms, state, slots, eviction, isDoubted } = lease;
  const rule = preemptionOf(lease);
  const isOut =
    terms === undefined || state === "vacating" || slots !== undefined || isDoubted === true;
  if (isOut || eviction !== undefined || !rule.isPreemptible) return Infinity;
  return lease.grantedAtMs + rule.minRuntimeMs;
}

/** When the next lease that is protected now may be taken; infinite when there is none. */
export function nextEvictableAtMs(leases: Iterable<Lease>, nowMs: number): number {
  let nextMs = Infinity;
  for (const lease of leases) {
    const atMs = evictableAtMs(lease);
    if (atMs > nowMs) nextMs = Math.min(nextMs, atMs);
  }
  return nextMs;
}

/** GPU-seconds of work that are lost when the lease is given up now. */
export function lossOf(
  { gpus, grantedAtMs, checkpointedAtMs, terms }: Lease,
  nowMs: number,
): number {
  const sinceMs = nowMs - Math.max(grantedAtMs, checkpointedAtMs ?? grantedAtMs);
  const orderMs =
    terms?.checkpoint === undefined
      ? Infinity
      : Math.min(CHECKPOINT_COST_MS, terms.checkpoint.graceMs);
  return (gpuCountOf(gpus) * Math.max(0, Math.min(sinceMs, orderMs))) / 1_000;
}

/** Whether any of the GPUs could serve the request. */
const isUseful = (request: PendingRequest, { gpus }: Lease, { index }: Holdings): boolean =>
  gpus.some(({ host }) => {
    const place = index.places.get(host);
    return place !== undefined && isSuitable(request, place);
  });

/** What may be taken from each of these at most, GPUs; undefined: nothing. */
type Limits = readonly Limit[] | undefined;
interface Limit {
  readonly key: string;
  readonly gpus: number;
}

function dueLimits(
  request: PendingRequest,
  lease: Lease,
  { holdings, wantedGpus, freeGpus }: Due,
): Limits {
  const limits = [{ key: tenantFlow(lease), gpus: surplusOf(holdings, tenantFlow(lease)) }];
  if (!isSameClass(request, lease)) {
    if (wantedGpus > -surplusOf(holdings, classFlow(request))) return undefined;
    limits.push({ key: classFlow(lease), gpus: surplusOf(holdings, classFlow(lease)) });
  }
  // What is free and of no use to a heavier class counts for the lighter: else the larger the scraps, the less it would have to give.
  const isHeavier = holdings.weightOf(classFlow(request)) > holdings.weightOf(classFlow(lease));
  const least = limits.reduce((least, { gpus }) => Math.min(least, gpus), Infinity);
  if (least + (isHeavier && least < 1 ? freeGpus() : 0) < 1) return undefined;
  const own = quotaOf(lease, holdings);
  const isGuarded =
    own !== undefined &&
    lease.tenant !== request.tenant &&
    !isWithinQuota(request, lease, holdings);
  if (!isGuarded) return limits;
  limits.push({ key: own.name, gpus: borrowedOf(own, holdings) });
  return borrowedOf(own, holdings) < 1 ? undefined : limits;
}

interface Due {
  readonly holdings: Holdings;
  readonly wantedGpus: number;
  readonly freeGpus: () => number;
}

function reclaimLimits(request: PendingRequest, lease: Lease, holdings: Holdings): Limits {
  const own = quotaOf(lease, holdings);
  if (own === undefined || lease.tenant === request.tenant) return undefined;
  // Who is not limited has nothing to claim back, and who lends to nobody is owed nothing.
  if (quotaOfHost(request, lease, holdings) === undefined) return undefined;
  if (!isWithinQuota(request, lease, holdings)) return undefined;
  const gpus = borrowedOf(own, holdings);
  return gpus < 1 ? undefined : [{ key: own.name, gpus }];
}

/** Whether the request's tenant stays within its own quota when it gets its gang where the lease is now. */
function isWithinQuota(request: PendingRequest, lease: Lease, holdings: Holdings): boolean {
  const own = quotaOfHost(request, lease, holdings);
  return own === undefined || heldUnderKey(own, holdings) + request.gang.gpus <= own.ownGpus;
}

const quotaOf = (lease: Lease, holdings: Holdings): QuotaKey | undefined =>
  quotaOfHost(lease, lease, holdings);

/** A gang is of one GPU type, so any of its hosts will do. */
function quotaOfHost(
  { tenant }: Pick<PendingRequest, "tenant">,
  { gpus: [part] }: Lease,
  { index }: Holdings,
): QuotaKey | undefined {
  return part === undefined ? undefined : quotaKeyOf(index, tenant, part.host);
}

const heldUnderKey = ({ name }: QuotaKey, { quota }: Holdings): number => quota.get(name) ?? 0;

const borrowedOf = (own: QuotaKey, holdings: Holdings): number =>
  heldUnderKey(own, holdings) - own.ownGpus;
