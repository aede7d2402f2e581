/**
 * @file The queue as it stands now: the order of the requests, and each class's and tenant's share, due share and deficit.
 *
 * The order is the one in which the next cycle begins; every grant of that cycle changes it. Shares are parts of the GPUs on which new
 * work may start. Cost: O(ledger + n log n) for n requests.
 */

import { drainedMask } from "../ledger/rules/gpu-drains.ts";
import { hostConditionOf } from "../ledger/rules/grant-check.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { fullMask } from "../../lib/bits.ts";
import { openQueue } from "../cycle/scheduler-cache.ts";
import type { Policies } from "../cycle/cycle.ts";
import { DECIDE_POLICIES } from "../cycle/decide.ts";
import { dueTo, openHoldings } from "../fairness/holdings.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { indexFleet } from "../ledger/rules/fleet-index.ts";
import { holdOf } from "../ledger/rules/queue-holds.ts";
import { runningGpusOf } from "../ledger/rules/service-account.ts";
import { tenantFlow } from "../ledger/rules/flow.ts";
import { deficitsOf, type ClassDeficit, type TenantDeficit } from "../fairness/flow-deficits.ts";

export interface Shared {
  /** Usable GPUs that are due to the flow now. */
  readonly dueGpus: number;
  /** Part of the usable GPUs that the flow holds, from 0. */
  readonly share: number;
  readonly dueShare: number;
}

export type TenantLine = TenantDeficit & Shared;
export type ClassLine = Omit<ClassDeficit, "tenants"> &
  Shared & { readonly tenants: readonly TenantLine[] };

export interface QueueOrder {
  readonly usableGpus: number;
  readonly classes: readonly ClassLine[];
  /** The next request first. */
  readonly line: readonly {
    readonly request: PendingRequest;
    /** Absent when no cycle has nominated the request yet. */
    readonly reason?: PendingReason;
    /** GPUs are reserved for it. */
    readonly isReserved: boolean;
  }[];
}

export function queueOrder(
  ledger: Ledger,
  nowMs: number,
  { queue }: Pick<Policies, "queue"> = DECIDE_POLICIES,
): QueueOrder {
  const shares = sharesNow(ledger, nowMs);
  const line = [...inOrder(ledger, nowMs, queue)].map((request) => {
    const reason = ledger.reasons.get(request.jobId);
    const isReserved = ledger.reservations?.has(request.jobId) === true;
    return { request, isReserved, ...(reason !== undefined && { reason }) };
  });
  return { ...shares, line };
}

/** What each class and tenant holds, is due and is owed. Cost: O(ledger). */
export function sharesNow(
  ledger: Ledger,
  nowMs: number,
): Pick<QueueOrder, "usableGpus" | "classes"> {
  const index = indexFleet(ledger.shape);
  let usableGpus = 0;
  for (const { host } of index.places.values()) {
    const status = ledger.hosts.get(host.id);
    if (hostConditionOf(status) === undefined)
      usableGpus += popCount(fullMask(host.gpuCount) & ~drainedMask(status));
  }
  const holdings = openHoldings(ledger, index, usableGpus);
  const shared = (flow: string, runningGpus: number): Shared => {
    const dueGpus = dueTo(holdings, flow);
    const part = (gpus: number): number => (usableGpus === 0 ? 0 : gpus / usableGpus);
    return { dueGpus, share: part(runningGpus), dueShare: part(dueGpus) };
  };
  const classes = deficitsOf(ledger, nowMs).map((deficit) => ({
    ...deficit,
    ...shared(deficit.class, deficit.runningGpus),
    tenants: deficit.tenants.map((tenant) => ({
      ...tenant,
      ...shared(tenantFlow({ class: deficit.class, tenant: tenant.tenant }), tenant.runningGpus),
    })),
  }));
  return { usableGpus, classes };
}

/** The place of each waiting job in that order, from 1. Every answer about a place is this one. Cost: O(n log n). */
export function placesInQueue(
  ledger: Ledger,
  {
    nowMs,
    queue = DECIDE_POLICIES.queue,
  }: { readonly nowMs: number } & Partial<Pick<Policies, "queue">>,
): ReadonlyMap<JobId, number> {
  const places = new Map<JobId, number>();
  for (const { jobId } of inOrder(ledger, nowMs, queue)) places.set(jobId, places.size + 1);
  return places;
}

/** The requests in the order in which a cycle begins now, and behind them those that are held. */
function* inOrder(
  ledger: Ledger,
  nowMs: number,
  queue: Policies["queue"],
): Generator<PendingRequest> {
  const { service, holds, requests, leases } = ledger;
  const cursor = openQueue(ledger, queue, "none").order(nowMs, {
    ...(service !== undefined && { service }),
    runningGpus: runningGpusOf(leases.values()),
  });
  for (let request = cursor.next(); request !== undefined; request = cursor.next()) yield request;
  for (const request of requests.values()) if (holdOf(holds, request) !== undefined) yield request;
}
