/**
 * @file The leases that give way to a request by the order of service inside its scope (service-order.ts), the most served first.
 *
 * The right is one inside a tenant and class: what a tenant is due is the same before and after. Only a policy that knows no tenants uses it
 * over the whole fleet. Without a checkpoint the work of a run would be lost, so such a job never gives way;
 * a loan gives way to the job of its reservation alone. Cost: O(leases in it) for each scope,
 * rank and priority of a cycle, and O(k log k) for k that give way; O(k) a request.
 */

import type { LeaseId } from "../../domain/values/ids.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { isSuitable } from "../ledger/rules/grant-check.ts";
import { tenantFlow } from "../ledger/rules/flow.ts";
import type { FleetIndex } from "../ledger/rules/fleet-index.ts";
import { heldIn, waitingKey, type Holdings } from "../fairness/holdings.ts";
import { levelOf, stretchOf, type ServiceOrder } from "../queue/service-order.ts";
import { kindsIn, type Victim, type VictimIndex } from "./candidate-index.ts";
import { lossOf } from "./eviction-cost.ts";
import type { VictimChoice } from "./victim-choice.ts";

export interface OrderSearch {
  readonly order: ServiceOrder;
  readonly index: FleetIndex;
  readonly book: VictimIndex;
  readonly holdings: Holdings;
  readonly nowMs: number;
  /** Leases that the plan evicts already. */
  readonly taken: ReadonlySet<LeaseId>;
}

export function victimsByOrder(request: PendingRequest, search: OrderSearch): VictimChoice {
  const { index, nowMs, taken } = search;
  const { givers, giving } = outlookOf(request, search);
  let known: readonly Victim[] | undefined;
  const isLeft = ({ lease }: Victim): boolean =>
    !taken.has(lease.id) && lease.jobId !== request.jobId;
  const ordered = (): readonly Victim[] =>
    (known ??= givers.filter((victim) => isLeft(victim) && isUseful(request, victim.lease, index)));
  return {
    isEmpty: () => !givers.some(isLeft),
    allows: (victim) => giving.has(victim) && isLeft(victim),
    ordered,
    lossOf: ({ lease }) => lossOf(lease, nowMs),
  };
}

/** When the next lease will give way to the request that does not yet; infinite when none will. */
export const nextByOrderMs = (request: PendingRequest, search: OrderSearch): number =>
  outlookOf(request, search).nextMs;

/** Of the levels that a lease must have used up to give way to the request. */
export function stretchFor(
  request: PendingRequest,
  { order, holdings }: Pick<OrderSearch, "order" | "holdings">,
): number {
  if (order.mostStretch === 1) return 1;
  return stretchOf(order, waitingUpTo(request, holdings), heldIn(holdings, tenantFlow(request)));
}

/** GPUs that wait in the flow of the request on its level or below, its own included; the last level has no end and is not counted. */
export function waitingUpTo(
  request: PendingRequest,
  { waiting }: Pick<Holdings, "waiting">,
): number {
  const flow = tenantFlow(request);
  let gpus = 0;
  for (let seq = 0; seq <= levelOf(request) + 1; seq += 1)
    gpus += waiting.get(waitingKey(flow, seq)) ?? 0;
  return gpus;
}

/** Of all requests of one scope, rank and priority. */
interface Outlook {
  /** Who gives way now, the most served first, whether the plan evicts it already or not. */
  readonly givers: readonly Victim[];
  readonly giving: ReadonlySet<Victim>;
  readonly nextMs: number;
}

/** Of a cycle, which has one set of leases that its plan evicts. */
const OUTLOOKS = new WeakMap<OrderSearch["taken"], Map<string, Outlook>>();

function outlookOf(request: PendingRequest, search: OrderSearch): Outlook {
  const { order, book, nowMs, taken, holdings } = search;
  const outlooks = OUTLOOKS.get(taken) ?? new Map<string, Outlook>();
  OUTLOOKS.set(taken, outlooks);
  const rank = order.rankOf(request);
  const isFleet = order.scope === "fleet";
  const scope = isFleet ? "" : tenantFlow(request);
  const key = `${scope} ${rank} ${request.priority}`;
  const known = outlooks.get(key);
  if (known !== undefined) return known;
  const stretch = stretchFor(request, { order, holdings });
  const givers: Victim[] = [];
  let nextMs = Infinity;
  const at = { nowMs, stretch };
  const look = (victim: Victim): void => {
    const { lease, fromMs } = victim;
    if (!isBelow(request, lease)) return;
    if (fromMs <= nowMs && order.givesWay(lease, rank, at)) givers.push(victim);
    else {
      const atMs = Math.max(fromMs, order.givesWayAtMs(lease, rank, stretch));
      if (atMs > nowMs && atMs < nextMs) nextMs = atMs;
    }
  };
  if (isFleet) for (const victim of book.all.values()) look(victim);
  else for (const alike of kindsIn(book, scope)) for (const victim of alike) look(victim);
  givers.sort(
    (a, b) =>
      order.servedOf(b.lease, nowMs) - order.servedOf(a.lease, nowMs) ||
      b.lease.token - a.lease.token,
  );
  const outlook = { givers, giving: new Set(givers), nextMs };
  outlooks.set(key, outlook);
  return outlook;
}

/** A job gives way to none of a lower priority, and only where a checkpoint keeps its work. */
const isBelow = (request: PendingRequest, lease: Lease): boolean =>
  lease.opportunistic === undefined &&
  lease.terms?.checkpoint !== undefined &&
  lease.terms.priority <= request.priority;

/** Whether any of the GPUs could serve the request. */
const isUseful = (request: PendingRequest, { gpus }: Lease, index: FleetIndex): boolean =>
  gpus.some(({ host }) => {
    const place = index.places.get(host);
    return place !== undefined && isSuitable(request, place);
  });
