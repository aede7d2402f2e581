/**
 * @file Whose leases may be taken for a request, in the order of what that would cost.
 *
 * Of those whose leases may be taken at all (evictable.ts, victim-book.ts), somebody may be evicted by whose loss nobody is wronged,
 * by either of two rights:
 *   due      the request's flows (its tenant's, and its class's where the victim is of another class) are not above their due
 *            shares after, and the victim's are not below theirs. Inside one flow nobody evicts anybody. What a tenant holds
 *            within its own quota falls to others within theirs alone.
 *   reclaim  the request's tenant is within its own quota of this GPU type after, and the victim's tenant not below its own: what
 *            was borrowed goes back to its owner.
 * Counted are the GPUs that the request takes, because the rest of a gang goes back to the queue at once, as does what is free
 * and too scattered for the request: a flow that could have it is not wronged. Any subset of the answer may be taken together: of flows
 * that could not give all that the request wants, only as many GPUs are named as they have above their dues.
 *
 * The order is by loss per GPU that the request can use; then the ones that waste the fewest GPUs, then the latest granted.
 * Rights are judged once for all leases of one flow and GPU type. Cost: a choice is O(flows), in order O(k log k) for k that may be taken.
 */

import type { LeaseId } from "../domain/ids.ts";
import type { Lease } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { lossOf } from "./evictable.ts";
import { isSuitable } from "./feasibility.ts";
import { isSameClass, quotaKeyOf, surplusOf, type Holdings, type QuotaKey } from "./holdings.ts";
import { classFlow, tenantFlow } from "./queue/flow.ts";
import type { Victim, VictimBook } from "./victim-book.ts";

export type Right = "due" | "reclaim";

export interface VictimSearch {
  readonly holdings: Holdings;
  readonly book: VictimBook;
  readonly nowMs: number;
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
  /** GPU-seconds that are lost when it is taken now. */
  readonly lossOf: (victim: Victim) => number;
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
  { holdings, book, nowMs, taken, freeGpus }: VictimSearch,
): VictimChoice {
  const limitsByKind = new Map<string, Limits>();
  let known: readonly Victim[] | undefined;
  let free: number | undefined;
  let members: ReadonlySet<Victim> | undefined;
  const loss = ({ lease }: Victim): number => lossOf(lease, nowMs);
  return { isEmpty, allows, lossOf: loss, ordered };

  function isEmpty(): boolean {
    for (const kind of book.kinds.values())
      for (const victim of kind) {
        if (limitsOf(victim) === undefined) break;
        if (isOpen(victim)) return false;
      }
    return true;
  }

  function allows(victim: Victim): boolean {
    if (!isOpen(victim)) return false;
    const limits = limitsOf(victim);
    if (limits === undefined) return false;
    if (limits.every(isAmple)) return true;
    members ??= new Set(ordered());
    return members.has(victim);
  }

  function isOpen({ lease, fromMs }: Victim): boolean {
    return fromMs <= nowMs && !taken.has(lease.id) && lease.jobId !== request.jobId;
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
    const able: Victim[] = [];
    for (const kind of book.kinds.values())
      for (const victim of kind) {
        if (limitsOf(victim) === undefined) break;
        if (isOpen(victim) && isUseful(request, victim.lease, holdings)) able.push(victim);
      }
    const useOf = ({ gpus }: Victim): number => Math.min(gpus, wantedGpus);
    able.sort(
      (a, b) =>
        loss(a) / useOf(a) - loss(b) / useOf(b) ||
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
