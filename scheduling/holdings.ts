/**
 * @file Who holds how much and wants how much, once everything that is under way has happened: what dues are judged by.
 *
 * A lease that is to be given up counts for nobody; the GPUs that evictions have set apart (`preemption`, `keep`) count for the job that
 * gets them. Demand is what a flow's jobs hold and wait for; a request that can never start here wants nothing. Holdings
 * inside quotas are by tenant and quota key.
 * Cost: O(leases + requests) to open, O(1) a change.
 */

import type { HostId, JobId, TenantId } from "../domain/ids.ts";
import { gpuCountOf, popCount, type HostGpus, type Lease } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { wholeDueShares } from "./due-share.ts";
import type { FleetIndex } from "./fleet-index.ts";
import type { Ledger } from "./ledger.ts";
import { quotaLimit } from "./limits.ts";
import { classFlow, flowWeights, parentFlow, tenantFlow, type FlowWeights } from "./queue/flow.ts";

type Holder = Pick<PendingRequest, "class" | "tenant">;

/** Changes by `noteHeld` alone, once it is open: what is held does, demand does not. */
export interface Holdings {
  readonly supplyGpus: number;
  readonly weightOf: FlowWeights;
  readonly index: FleetIndex;
  /** GPUs by flow, of classes and of tenants in them. */
  readonly held: Map<string, number>;
  /** GPUs by tenant's flow. */
  readonly demand: ReadonlyMap<string, number>;
  /** GPUs by tenant and quota key, see `quotaKeyOf`. */
  readonly quota: Map<string, number>;
  /** Worked out when it is first asked for: granting moves demand from waiting to holding and changes no due. */
  due?: ReadonlyMap<string, number>;
}

/** `supplyGpus`: GPUs of the fleet that may be used now. */
export function openHoldings(ledger: Ledger, index: FleetIndex, supplyGpus: number): Holdings {
  const { shape, leases, requests, reasons, reservations } = ledger;
  const demand = new Map<string, number>();
  const holdings: Holdings = {
    supplyGpus,
    weightOf: flowWeights(shape.tenants, shape.policy),
    index,
    held: new Map(),
    demand,
    quota: new Map(),
  };
  const stopping = new Map<JobId, Lease>();
  for (const lease of leases.values()) {
    if (lease.state === "vacating") continue;
    add(demand, tenantFlow(lease), gpuCountOf(lease.gpus));
    if (lease.eviction === undefined) noteHeld(holdings, lease, lease.gpus);
    else stopping.set(lease.jobId, lease);
  }
  for (const request of requests.values()) {
    const code = reasons.get(request.jobId)?.code;
    if (code === "NoMatchingFlavor" || code === "ExceedsMaxQuota") continue;
    // What it holds and is to give up is in the account already.
    if (stopping.has(request.jobId)) continue;
    add(demand, tenantFlow(request), wantedGpus(request));
  }
  for (const { jobId, kind, gpus } of reservations?.values() ?? []) {
    const holder = requests.get(jobId) ?? stopping.get(jobId);
    if (kind !== "head" && holder !== undefined) noteHeld(holdings, holder, gpus);
  }
  return holdings;
}

/** Of an array, all its gangs. */
export const wantedGpus = ({ gang, slots }: PendingRequest): number => gang.gpus * (slots ?? 1);

/** These GPUs are the holder's from now on; `sign` −1: no more. */
export function noteHeld(
  { held, quota, index }: Holdings,
  holder: Holder,
  gpus: readonly HostGpus[],
  sign: 1 | -1 = 1,
): void {
  const count = sign * gpuCountOf(gpus);
  add(held, classFlow(holder), count);
  add(held, tenantFlow(holder), count);
  if (!index.tenants.has(holder.tenant)) return;
  for (const { host, mask } of gpus) {
    const key = quotaKeyOf(index, holder.tenant, host);
    if (key !== undefined) add(quota, key.name, sign * popCount(mask));
  }
}

export interface QuotaKey {
  /** Tenant and what is counted together. */
  readonly name: string;
  /** GPUs that are the tenant's own; what it holds above is borrowed. */
  readonly ownGpus: number;
}

/** Against what GPUs of a host count; undefined where the tenant is not limited. */
export function quotaKeyOf(
  { places, tenants }: FleetIndex,
  tenant: TenantId,
  host: HostId,
): QuotaKey | undefined {
  const rule = tenants.get(tenant);
  const place = places.get(host);
  if (rule === undefined || place === undefined) return undefined;
  const limit = quotaLimit(rule, place.host.gpuType);
  if (limit === undefined) return undefined;
  return { name: `${tenant} ${limit.key}`, ownGpus: limit.gpus - rule.borrowingLimit };
}

/** Whole GPUs that are due to the flow now. */
export const dueTo = (holdings: Holdings, flow: string): number =>
  (holdings.due ??= wholeDueShares(holdings.demand, holdings.weightOf, holdings.supplyGpus)).get(
    flow,
  ) ?? 0;

export const heldIn = ({ held }: Holdings, flow: string): number => held.get(flow) ?? 0;

/** GPUs that the flow holds above what is due to it; below 0 when it holds less. */
export const surplusOf = (holdings: Holdings, flow: string): number =>
  heldIn(holdings, flow) - dueTo(holdings, flow);

export const isSameClass = (a: Holder, b: Holder): boolean =>
  parentFlow(tenantFlow(a)) === parentFlow(tenantFlow(b));

function add(counts: Map<string, number>, key: string, more: number): void {
  counts.set(key, (counts.get(key) ?? 0) + more);
}
