/**
 * @file The account of a ledger's leases: which GPUs are taken, what each tenant holds, what each cluster draws.
 *
 * Built once, then kept up to date by what is taken and released. GPUs on hosts that the fleet's description no
 * longer has stay taken, but their type and draw are unknown: they count against no limit, and nothing can be granted there.
 * Cost: O(GPU sets in leases) to build.
 */

import type { ClusterId, HostId, TenantId } from "../domain/ids.ts";
import { popCount, type HostGpus, type Lease } from "../domain/lease.ts";
import type { FleetIndex } from "./fleet-index.ts";
import { quotaLimit } from "./limits.ts";

/** Changes by `take` and `release` alone. */
export interface Usage {
  /** GPUs by host as bit masks. */
  readonly taken: Map<HostId, number>;
  /** GPUs held, by tenant and the key of the quota that they count against. */
  readonly quota: Map<TenantId, Map<string, number>>;
  readonly watts: Map<ClusterId, number>;
}

export function usageOf(leases: Iterable<Lease>, index: FleetIndex): Usage {
  const usage: Usage = { taken: new Map(), quota: new Map(), watts: new Map() };
  for (const lease of leases) take(usage, index, { tenant: lease.tenant, gpus: takenGpus(lease) });
  return usage;
}

/** The GPUs of a lease that nobody else may have: of a vacating one, those on hosts that have not confirmed. */
export function takenGpus({ gpus, vacatingHosts }: Lease): readonly HostGpus[] {
  return vacatingHosts === undefined
    ? gpus
    : gpus.filter(({ host }) => vacatingHosts.includes(host));
}

export function take(usage: Usage, index: FleetIndex, held: Held): void {
  for (const { host, mask } of held.gpus) {
    usage.taken.set(host, (usage.taken.get(host) ?? 0) | mask);
    count(usage, index, { tenant: held.tenant, host, gpus: popCount(mask) });
  }
}

/** The reverse of `take`, for GPUs that were taken. */
export function release(usage: Usage, index: FleetIndex, held: Held): void {
  for (const { host, mask } of held.gpus) {
    usage.taken.set(host, (usage.taken.get(host) ?? 0) & ~mask);
    count(usage, index, { tenant: held.tenant, host, gpus: -popCount(mask) });
  }
}

export interface Held {
  readonly tenant: TenantId;
  readonly gpus: readonly HostGpus[];
}

function count(
  usage: Usage,
  index: FleetIndex,
  {
    tenant,
    host,
    gpus,
  }: { readonly tenant: TenantId; readonly host: HostId; readonly gpus: number },
): void {
  const place = index.places.get(host);
  if (place === undefined) return;
  const cluster = place.cluster.id;
  usage.watts.set(cluster, (usage.watts.get(cluster) ?? 0) + gpus * place.host.gpuWatts);
  const limit = quotaLimit(index.tenants.get(tenant), place.host.gpuType);
  if (limit === undefined) return;
  const held = usage.quota.get(tenant) ?? new Map<string, number>();
  usage.quota.set(tenant, held.set(limit.key, (held.get(limit.key) ?? 0) + gpus));
}

export const heldUnder = (usage: Usage, tenant: TenantId, key: string): number =>
  usage.quota.get(tenant)?.get(key) ?? 0;
