/**
 * @file Who holds what, to be named in reasons: the first few job ids per cluster and GPU type, and per tenant.
 *
 * Only `MAX_HOLDERS` ids are kept in each place, the lowest by code unit, because no reason names more.
 * Cost: O(hosts of the lease) to note one.
 */

import {
  byCodeUnit,
  type ClusterId,
  type HostId,
  type JobId,
  type TenantId,
} from "../domain/ids.ts";
import { MAX_HOLDERS } from "../domain/pending.ts";
import type { FleetIndex } from "./fleet-index.ts";

/** Grows by `noteHolder` alone. */
export interface Holders {
  readonly clusters: Map<ClusterId, Map<string, JobId[]>>;
  readonly tenants: Map<TenantId, JobId[]>;
}

export const noHolders = (): Holders => ({ clusters: new Map(), tenants: new Map() });

export function noteHolder(
  { clusters, tenants }: Holders,
  { places }: FleetIndex,
  holder: {
    readonly jobId: JobId;
    readonly tenant: TenantId;
    readonly gpus: readonly { readonly host: HostId }[];
  },
): void {
  const { jobId, tenant, gpus } = holder;
  keepLowest(listAt(tenants, tenant), jobId);
  for (const { host } of gpus) {
    const place = places.get(host);
    if (place === undefined) continue;
    const types = clusters.get(place.cluster.id) ?? new Map<string, JobId[]>();
    clusters.set(place.cluster.id, types);
    keepLowest(listAt(types, place.host.gpuType), jobId);
  }
}

/** At most `MAX_HOLDERS` of them, sorted. */
export function firstJobs(lists: readonly (readonly JobId[])[]): readonly JobId[] {
  const lowest: JobId[] = [];
  for (const jobs of lists) for (const job of jobs) keepLowest(lowest, job);
  return lowest;
}

function keepLowest(jobs: JobId[], job: JobId): void {
  const last = jobs[MAX_HOLDERS - 1];
  if ((last !== undefined && job >= last) || jobs.includes(job)) return;
  jobs.push(job);
  jobs.sort(byCodeUnit);
  if (jobs.length > MAX_HOLDERS) jobs.pop();
}

function listAt<Key>(lists: Map<Key, JobId[]>, key: Key): JobId[] {
  const known = lists.get(key);
  if (known !== undefined) return known;
  const fresh: JobId[] = [];
  lists.set(key, fresh);
  return fresh;
}
