/**
 * @file The account of a ledger's leases: the GPUs in use, each tenant's holdings, the draw of each cluster, site and rack, host labels, and
 * what leases take of their hosts' processors and memory.
 *
 * Built once, then kept up to date lease by lease. GPUs on hosts that have left the fleet's description stay in use, but their type and draw
 * are unknown: they count against no limit, and nothing can be granted there. Cost: O(GPU sets in leases) to build.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { TenantRule } from "../../../domain/fleet/fleet.ts";
import type { ClusterId, HostId, JobId, TenantId } from "../../../domain/values/ids.ts";
import {
  popCount,
  type GangRequest,
  type HostGpus,
  type Lease,
} from "../../../domain/lease/lease.ts";
import type { GpuNeed } from "../../../domain/job/job-resources.ts";
import { addUneven, type UnevenHosts } from "./host-resources.ts";
import type { FleetIndex, HostPlace } from "./fleet-index.ts";
import { quotaLimit } from "./limits.ts";

/** Changes by `take` and `release` alone. */
export interface Usage {
  /** GPUs by host as bit masks. */
  readonly taken: Map<HostId, number>;
  /** GPUs held, by tenant and the key of the quota that they count against. */
  readonly quota: Map<TenantId, Map<string, number>>;
  readonly watts: Map<ClusterId, number>;
  /** Watts by the name of the budget, of sites and racks that have one. */
  readonly budgets: Map<string, number>;
  /** Jobs by host and label, with how many of its leases each has there. */
  readonly labels: Map<string, Map<JobId, number>>;
  /** By host, see host-resources.ts: only hosts with a lease that says what it takes. */
  readonly uneven: UnevenHosts;
}

export function usageOf(leases: Iterable<Lease>, index: FleetIndex): Usage {
  const usage: Usage = {
    taken: new Map(),
    quota: new Map(),
    watts: new Map(),
    budgets: new Map(),
    labels: new Map(),
    uneven: new Map(),
  };
  for (const lease of leases) take(usage, index, heldBy(lease));
  return usage;
}

/** The GPUs of a lease that nobody else may have: of a vacating one, those on hosts that have not confirmed. */
export function takenGpus({ gpus, vacatingHosts }: Lease): readonly HostGpus[] {
  return vacatingHosts === undefined
    ? gpus
    : gpus.filter(({ host }) => vacatingHosts.includes(host));
}

/** The labels once more, in the order of the leases. */
export function relabel(usage: Usage, leases: Iterable<Lease>): void {
  if (usage.labels.size === 0) return;
  usage.labels.clear();
  for (const lease of leases) {
    if (lease.terms?.constraints.antiAffinity === undefined) continue;
    const held = heldBy(lease);
    for (const { host } of held.gpus) noteLabel(usage, held, { host, leases: 1 });
  }
}

/** What a lease holds now. */
export const heldBy = (lease: Lease): Held => ({
  tenant: lease.tenant,
  gpus: takenGpus(lease),
  ...labelled(lease.jobId, lease.terms?.constraints.antiAffinity),
  ...needing(needOf(lease)),
});

/** As its terms say; of a lease that was only reported, as the report says. */
export const needOf = ({ terms, resources }: Lease): GpuNeed | undefined =>
  terms === undefined ? resources : terms.constraints.resources;

/** The label that a job keeps others of its kind away with; nothing when it has none. */
export const labelled = (jobId: JobId, antiAffinity: string | undefined): Pick<Held, "label"> =>
  antiAffinity === undefined ? {} : { label: { jobId, antiAffinity } };

/** What its GPUs take of their hosts; nothing when the job does not say. */
export const needing = (resources: GpuNeed | undefined): Pick<Held, "resources"> =>
  resources === undefined ? {} : { resources };

export function take(usage: Usage, index: FleetIndex, held: Held): void {
  const { taken } = usage;
  for (const { host, mask } of held.gpus) taken.set(host, (taken.get(host) ?? 0) | mask);
  note(usage, index, { held, sign: 1 });
}

/** The reverse of `take`, for GPUs that were taken. */
export function release(usage: Usage, index: FleetIndex, held: Held): void {
  const { taken } = usage;
  for (const { host, mask } of held.gpus) taken.set(host, (taken.get(host) ?? 0) & ~mask);
  note(usage, index, { held, sign: -1 });
}

function note(
  usage: Usage,
  index: FleetIndex,
  { held, sign }: { readonly held: Held; readonly sign: 1 | -1 },
): void {
  const rule = index.tenants.get(held.tenant);
  for (const { host, mask } of held.gpus) {
    const place = index.places.get(host);
    const gpus = sign * popCount(mask);
    if (place !== undefined) {
      countWatts(usage, place, gpus);
      if (rule !== undefined) countQuota(usage, rule, { place, gpus });
      if (held.resources !== undefined)
        addUneven(usage.uneven, place.host, { need: held.resources, gpus });
    }
    if (held.label !== undefined) noteLabel(usage, held, { host, leases: sign });
  }
}

export interface Held {
  readonly tenant: TenantId;
  readonly gpus: readonly HostGpus[];
  /** Absent where the job has none. */
  readonly label?: { readonly jobId: JobId; readonly antiAffinity: string };
  /** Absent where the job takes the shares of its GPUs. */
  readonly resources?: GpuNeed;
}

function noteLabel(
  { labels }: Usage,
  { tenant, label }: Held,
  { host, leases }: { readonly host: HostId; readonly leases: 1 | -1 },
): void {
  if (label === undefined) return;
  const key = labelKey(host, tenant, label.antiAffinity);
  const jobs = labels.get(key) ?? new Map<JobId, number>();
  const left = (jobs.get(label.jobId) ?? 0) + leases;
  if (left > 0) labels.set(key, jobs.set(label.jobId, left));
  else if (jobs.delete(label.jobId) && jobs.size === 0) labels.delete(key);
}

/** No id has white space. */
const labelKey = (host: HostId, tenant: TenantId, label: string): string =>
  `${host} ${tenant} ${label}`;

/** Another job of the tenant with the request's label on this host; the first that came. */
export function rivalOn(
  { labels }: Usage,
  host: HostId,
  { jobId, tenant, constraints }: Pick<GangRequest, "jobId" | "tenant" | "constraints">,
): JobId | undefined {
  const { antiAffinity } = constraints;
  if (antiAffinity === undefined) return undefined;
  const jobs = labels.get(labelKey(host, tenant, antiAffinity));
  return [...(jobs?.keys() ?? [])].find((other) => other !== jobId);
}

function countWatts(
  usage: Usage,
  { cluster: { id: cluster }, host: { gpuWatts }, budgets }: HostPlace,
  gpus: number,
): void {
  const watts = gpus * gpuWatts;
  usage.watts.set(cluster, (usage.watts.get(cluster) ?? 0) + watts);
  if (budgets === undefined) return;
  for (const { name } of budgets) usage.budgets.set(name, (usage.budgets.get(name) ?? 0) + watts);
}

function countQuota(
  { quota }: Usage,
  rule: TenantRule,
  { place, gpus }: { readonly place: HostPlace; readonly gpus: number },
): void {
  const limit = quotaLimit(rule, place.host.gpuType);
  if (limit === undefined) return;
  const held = quota.get(rule.id) ?? new Map<string, number>();
  quota.set(rule.id, held.set(limit.key, (held.get(limit.key) ?? 0) + gpus));
}

export const heldUnder = (usage: Usage, tenant: TenantId, key: string): number =>
  usage.quota.get(tenant)?.get(key) ?? 0;
