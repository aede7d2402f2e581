/**
 * @file The queue as it stands now: who would be asked in which order, and what each class and tenant has, is due and is owed.
 *
 * The order is the one in which the next cycle begins; every grant of that cycle changes it. Shares are of the GPUs on which new work
 * may start. Cost: O(ledger + n log n) for n requests.
 */

import { hindranceOf } from "./feasibility.ts";
import type { PendingReason } from "../domain/pending.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { openBrain } from "./brain.ts";
import type { Policies } from "./cycle.ts";
import { DECIDE_POLICIES } from "./decide.ts";
import { dueTo, openHoldings } from "./holdings.ts";
import type { Ledger } from "./ledger.ts";
import { tenantFlow } from "./queue/flow.ts";
import { standingsOf, type ClassStanding, type TenantStanding } from "./standings.ts";

export interface Shared {
  /** GPUs that are due to it now, of those that may be used. */
  readonly dueGpus: number;
  /** Part of the usable GPUs that it has, from 0. */
  readonly share: number;
  readonly dueShare: number;
}

export type TenantLine = TenantStanding & Shared;
export type ClassLine = Omit<ClassStanding, "tenants"> &
  Shared & { readonly tenants: readonly TenantLine[] };

export interface LineUp {
  readonly usableGpus: number;
  readonly classes: readonly ClassLine[];
  /** First in line first. */
  readonly line: readonly {
    readonly request: PendingRequest;
    /** Absent when no cycle has looked at it yet. */
    readonly reason?: PendingReason;
    /** GPUs that are set apart for it. */
    readonly isReserved: boolean;
  }[];
}

export function lineUp(
  ledger: Ledger,
  nowMs: number,
  { queue }: Pick<Policies, "queue"> = DECIDE_POLICIES,
): LineUp {
  const brain = openBrain(ledger, queue);
  const { index } = brain.capacity;
  let usableGpus = 0;
  for (const { host } of index.places.values())
    if (hindranceOf(ledger.hosts.get(host.id)) === undefined) usableGpus += host.gpuCount;
  const holdings = openHoldings(ledger, index, usableGpus);
  const shared = (flow: string, runningGpus: number): Shared => {
    const dueGpus = dueTo(holdings, flow);
    const part = (gpus: number): number => (usableGpus === 0 ? 0 : gpus / usableGpus);
    return { dueGpus, share: part(runningGpus), dueShare: part(dueGpus) };
  };
  const classes = standingsOf(ledger, nowMs).map((standing) => ({
    ...standing,
    ...shared(standing.class, standing.runningGpus),
    tenants: standing.tenants.map((tenant) => ({
      ...tenant,
      ...shared(tenantFlow({ class: standing.class, tenant: tenant.tenant }), tenant.runningGpus),
    })),
  }));
  const { service } = ledger;
  const turn = brain.queue.order(nowMs, {
    ...(service !== undefined && { service }),
    runningGpus: new Map(brain.runningGpus),
  });
  const line: LineUp["line"][number][] = [];
  for (let request = turn.next(); request !== undefined; request = turn.next()) {
    const reason = ledger.reasons.get(request.jobId);
    const isReserved = ledger.reservations?.has(request.jobId) === true;
    line.push({ request, isReserved, ...(reason !== undefined && { reason }) });
  }
  return { usableGpus, classes, line };
}
