/**
 * @file Jobs that hold GPUs, for reasons to name: the first few ids by cluster and GPU type, and by tenant.
 *
 * Each list has at most `MAX_HOLDERS` ids, the lowest by code unit, because no reason names more.
 */

import {
  type ClusterId,
  type HostId,
  type JobId,
  type LeaseId,
  type TenantId,
} from "../../domain/values/ids.ts";
import { MAX_HOLDERS } from "../../domain/lease/pending.ts";
import type { FleetIndex } from "../ledger/rules/fleet-index.ts";

export interface Holders {
  readonly clusters: ReadonlyMap<ClusterId, ReadonlyMap<string, readonly JobId[]>>;
  readonly tenants: ReadonlyMap<TenantId, readonly JobId[]>;
}

interface Holder {
  readonly jobId: JobId;
  readonly tenant: TenantId;
  readonly gpus: readonly { readonly host: HostId }[];
}

/** The holders as they are now. Cost: O(leases) the first time, then O(new grants). */
export type HolderIndex = () => Holders;

/** `granted`: further holders; the list grows while the cycle goes on. */
export function openHolderIndex(
  leases: ReadonlyMap<LeaseId, Holder>,
  granted: readonly Holder[],
  { places }: FleetIndex,
): HolderIndex {
  const clusters = new Map<ClusterId, Map<string, JobId[]>>();
  const tenants = new Map<TenantId, JobId[]>();
  let isOpen = false;
  let noted = 0;
  return () => {
    if (!isOpen) for (const lease of leases.values()) note(lease);
    isOpen = true;
    for (const grant of granted.slice(noted)) note(grant);
    noted = granted.length;
    return { clusters, tenants };
  };

  function note({ jobId, tenant, gpus }: Holder): void {
    keepLowest(listAt(tenants, tenant), jobId);
    for (const { host } of gpus) {
      const place = places.get(host);
      if (place === undefined) continue;
      const types = clusters.get(place.cluster.id) ?? new Map<string, JobId[]>();
      clusters.set(place.cluster.id, types);
      keepLowest(listAt(types, place.host.gpuType), jobId);
    }
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
  if (last !== undefined && job >= last) return;
  let at = jobs.length;
  for (let before = jobs[at - 1]; before !== undefined && before >= job; before = jobs[at - 1]) {
    if (before === job) return;
    at -= 1;
  }
  jobs.splice(at, 0, job);
  if (jobs.length > MAX_HOLDERS) jobs.pop();
}

function listAt<Key>(lists: Map<Key, JobId[]>, key: Key): JobId[] {
  const known = lists.get(key);
  if (known !== undefined) return known;
  const fresh: JobId[] = [];
  lists.set(key, fresh);
  return fresh;
}
