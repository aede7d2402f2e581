/**
 * @file Which leases may be evicted for a request, in the order of the loss.
 *
 * Of the leases that may be evicted at all (eviction-cost.ts, candidate-index.ts), those count whose loss wrongs no flow, by either of two
 * rights:
 *   due      the request's flows (its tenant's, and its class's where the victim is of another class) are not above their due
 *            shares after, and the victim's are not below theirs. Inside one flow no job evicts another. GPUs that a tenant holds
 *            within its own quota fall to other tenants only within theirs.
 *   reclaim  the request's tenant is within its own quota of this GPU type after, and the victim's tenant not below its own:
 *            borrowed GPUs go back to their owner.
 * Only the GPUs that the request takes are counted, because the rest of a gang goes back to the queue at once, as do free GPUs that are
 * too scattered for the request: a flow that could have them is not wronged. Any subset of the answer may be taken together: of flows
 * that could not give all that the request wants, leases are named only up to the GPUs above their dues.
 *
 * The order is by loss per GPU that the request can use; then by the fewest wasted GPUs, then the latest granted.
 * Cost: a choice is O(victims' kinds), in order O(k log k) for k that may be evicted.
 */

import type { LeaseId } from "../../domain/values/ids.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { lossOf } from "./eviction-cost.ts";
import { isSuitable } from "../ledger/rules/grant-check.ts";
import {
  isSameClass,
  quotaKeyOf,
  surplusOf,
  type Holdings,
  type QuotaKey,
} from "../fairness/holdings.ts";
import { classFlow, tenantFlow } from "../ledger/rules/flow.ts";
import type { Victim, VictimIndex } from "./candidate-index.ts";

export type Right = "due" | "reclaim" | "order";

export interface VictimSearch {
  readonly holdings: Holdings;
  readonly book: VictimIndex;
  readonly nowMs: number;
  /** Leases that the plan evicts already. */
  readonly taken: ReadonlySet<LeaseId>;
  /** GPUs of the types that the request can use, in no lease. */
  readonly freeGpus: () => number;
}

/** The leases that a request may evict. */
export interface VictimChoice {
  /** Whether no lease of any kind may be evicted: known at the cost of the kinds alone. */
  readonly isEmpty: () => boolean;
  readonly allows: (victim: Victim) => boolean;
  /** GPU-seconds that its eviction now would lose. */
  readonly lossOf: (victim: Victim) => number;
  /** The cheapest first. */
  readonly ordered: () => readonly Victim[];
}

/** GPUs that may still be granted to the request's tenant within its due in the class. */
export const dueRoom = (request: PendingRequest, holdings: Holdings): number =>
  -surplusOf(holdings, tenantFlow(request));

/** For a request that wants this many GPUs, at most `dueRoom` by right of due. */
export function chooseVictims(
  request: PendingRequest,
  wantedGpus: number,
  right: Exclude<Right, "order">,
  { holdings, book, nowMs, taken, freeGpus }: VictimSearch,
): VictimChoice {
  let known: readonly Victim[] | undefined;
  let free: number | undefined;
  let members: ReadonlySet<Victim> | undefined;
  const ownFlow = tenantFlow(request);
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

  /** Whether all GPUs that the request wants may come from there. */
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
    const rows = able.map((victim) => ({
      victim,
      perGpu: loss(victim) / useOf(victim),
      wasted: victim.gpus - useOf(victim),
    }));
    rows.sort(
      (a, b) =>
        a.perGpu - b.perGpu || a.wasted - b.wasted || b.victim.lease.token - a.victim.lease.token,
    );
    const spare = new Map<string, number>();
    const inTurn = rows.map(({ victim }) => victim);
    return inTurn.filter((victim) => {
      const limits = limitsOf(victim) ?? [];
      const isWithin = limits.every(
        (limit) => isAmple(limit) || (spare.get(limit.key) ?? limit.gpus) >= victim.gpus,
      );
      if (!isWithin) return false;
      for (const { key, gpus } of limits) spare.set(key, (spare.get(key) ?? gpus) - victim.gpus);
      return true;
    });
  }

  function limitsOf({ lease, flow }: Victim): Limits {
    if (flow === ownFlow) return undefined;
    return right === "due"
      ? dueLimits(request, lease, { holdings, wantedGpus, freeGpus: freeNow })
      : reclaimLimits(request, lease, holdings);
  }
}

/** Whether any of the GPUs could serve the request. */
const isUseful = (request: PendingRequest, { gpus }: Lease, { index }: Holdings): boolean =>
  gpus.some(({ host }) => {
    const place = index.places.get(host);
    return place !== undefined && isSuitable(request, place);
  });

/** The most GPUs that may be taken from each flow or quota; undefined for none. */
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
  // Free GPUs that are of no use to a heavier class count for the lighter one: else larger scraps would protect it.
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
  // A tenant without a quota has nothing to claim back.
  if (quotaOfHost(request, lease, holdings) === undefined) return undefined;
  if (!isWithinQuota(request, lease, holdings)) return undefined;
  const gpus = borrowedOf(own, holdings);
  return gpus < 1 ? undefined : [{ key: own.name, gpus }];
}

/** Whether the request's tenant stays within its own quota with its gang in the place of the lease. */
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
