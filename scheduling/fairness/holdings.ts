/**
 * @file GPUs held and demanded per class and tenant, counting pending evictions as done. The fair-share rules read this account.
 *
 * A lease under eviction counts for no flow; the GPUs that evictions have reserved (`preemption`, `keep`) count for the job that gets them.
 * Demand is the GPUs that a flow's jobs hold and wait for; a request that can never start here demands nothing. Holdings inside
 * quotas are by tenant and quota key. Cost: O(leases + requests) to open, O(1) a change.
 */

import type { HostId, JobId, TenantId } from "../../domain/values/ids.ts";
import { gpuCountOf, popCount, type HostGpus, type Lease } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { wholeDueShares } from "./due-share.ts";
import type { FleetIndex } from "../ledger/rules/fleet-index.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { quotaLimit } from "../ledger/rules/limits.ts";
import {
  classFlow,
  flowWeights,
  parentFlow,
  tenantFlow,
  type FlowWeights,
} from "../ledger/rules/flow.ts";

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
  /** GPUs that requests wait for, by `waitingKey`. */
  readonly waiting: ReadonlyMap<string, number>;
  /** GPUs by tenant and quota key, see `quotaKeyOf`. */
  readonly quota: Map<string, number>;
  /** Worked out when it is first asked for: granting moves demand from waiting to holding and changes no due. */
  due?: ReadonlyMap<string, number>;
}

/** `supplyGpus`: GPUs of the fleet that may be used now. */
export function openHoldings(ledger: Ledger, index: FleetIndex, supplyGpus: number): Holdings {
  const { shape, leases, requests, reasons, reservations } = ledger;
  const demand = new Map<string, number>();
  const waiting = new Map<string, number>();
  const holdings: Holdings = {
    supplyGpus,
    weightOf: flowWeights(shape.tenants, shape.policy),
    index,
    held: new Map(),
    demand,
    waiting,
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
    if (isUnstartable(reasons.get(request.jobId))) continue;
    // What it holds and is to give up is in the account already.
    if (stopping.has(request.jobId)) continue;
    add(demand, tenantFlow(request), wantedGpus(request));
    add(waiting, waitingKey(tenantFlow(request), request.seq), wantedGpus(request));
  }
  for (const { jobId, kind, gpus } of reservations?.values() ?? []) {
    const holder = requests.get(jobId) ?? stopping.get(jobId);
    if (kind !== "backfill" && holder !== undefined) noteHeld(holdings, holder, gpus);
  }
  return holdings;
}

/** Whether a request that waits for this reason can never start here. */
export const isUnstartable = (reason: PendingReason | undefined): boolean =>
  reason?.code === "NoMatchingFlavor" || reason?.code === "ExceedsMaxQuota";

/** Of an array, all its gangs. */
export const wantedGpus = ({ gang, slots }: PendingRequest): number => gang.gpus * (slots ?? 1);

/** Of the requests of a tenant's flow whose jobs ask for the `seq`-th time. */
export const waitingKey = (flow: string, seq: number): string => `${flow} ${String(seq)}`;

/** The holder holds these GPUs from now on. */
export const noteHeld = (holdings: Holdings, holder: Holder, gpus: readonly HostGpus[]): void =>
  countHeld(holdings, holder, { gpus, sign: 1 });

/** The holder no longer holds these GPUs. */
export const noteReleased = (holdings: Holdings, holder: Holder, gpus: readonly HostGpus[]): void =>
  countHeld(holdings, holder, { gpus, sign: -1 });

function countHeld(
  { held, quota, index }: Holdings,
  holder: Holder,
  { gpus, sign }: { readonly gpus: readonly HostGpus[]; readonly sign: 1 | -1 },
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
