/**
 * @file Who has what a request waits for: the jobs that a reason names, and the leases that are being given up for it.
 *
 * Cost: O(leases) once a cycle, when the first reason asks for it; then O(clusters) a reason.
 */

import type { ClusterId, JobId } from "../domain/ids.ts";
import type { Lease } from "../domain/lease.ts";
import type { EvictItem, PendingRequest } from "../domain/plan.ts";
import { quotaClaim } from "./claims.ts";
import { firstJobs, noHolders, noteHolder, type Holders } from "./holders.ts";
import type { Prospect, Scene, WaitCode } from "./judge.ts";
import type { Ledger } from "./ledger.ts";

/** What reasons are made from: the scene of the cycle, and who holds what in it. */
export interface Telling extends Scene {
  readonly snapshot: Pick<Ledger, "leases" | "links">;
  /** What this cycle has granted so far. */
  readonly granted: readonly Pick<Lease, "jobId" | "tenant" | "gpus">[];
  /** Whom it evicts. */
  readonly evict: readonly Pick<EvictItem, "lease" | "forJob">[];
  /** Who stands first in a line that nobody passes. */
  first?: JobId;
  /** Worked out when the first reason asks for it; `noted` of the grants are in it. */
  holders?: { readonly all: Holders; noted: number };
}

/** The leases that are being given up for it. */
export const evictingFor = (
  { jobId }: PendingRequest,
  { snapshot, evict }: Telling,
): readonly Lease[] => [
  ...[...snapshot.leases.values()].filter(({ eviction }) => eviction?.forJob === jobId),
  ...evict.flatMap(({ lease, forJob }) =>
    forJob === jobId ? (snapshot.leases.get(lease) ?? []) : [],
  ),
];

/** Who would have to end, or start, first: at most `MAX_HOLDERS` jobs, sorted. */
export function holdersOf(
  { tenant, jobId }: PendingRequest,
  code: WaitCode,
  {
    telling,
    prospects,
    evicting,
  }: {
    readonly telling: Telling;
    readonly prospects: readonly Prospect[];
    readonly evicting: readonly Lease[];
  },
): readonly JobId[] {
  const clusters = prospects.flatMap(({ type }) => type.groups.map(({ cluster }) => cluster.id));
  const holders = allHolders(telling);
  switch (code) {
    case "WaitingForQuota": {
      const keys = prospects.flatMap(({ quotaKey }) => quotaKey ?? []);
      const earlier = keys.map((key) => quotaClaim(telling.claims, tenant, key).jobs);
      return firstJobs([holders.tenants.get(tenant) ?? [], ...earlier]);
    }
    case "WaitingForPreempted":
      return firstJobs([evicting.map((lease) => lease.jobId)]);
    case "BehindEarlierJob": {
      const reserved = reservedIn(telling, new Set(clusters)).filter((job) => job !== jobId);
      const first = telling.first === undefined ? [] : [telling.first];
      return firstJobs([reserved, first]);
    }
    case "WaitingForPower":
      return firstJobs(
        clusters.flatMap((cluster) => [...(holders.clusters.get(cluster)?.values() ?? [])]),
      );
    case "WaitingForGpus":
    case "TopologyPlacementFailed":
      return firstJobs(
        prospects.flatMap(({ type: { groups, gpuType } }) =>
          groups.map(({ cluster }) => holders.clusters.get(cluster.id)?.get(gpuType) ?? []),
        ),
      );
    case "NoMatchingFlavor":
    case "ExceedsMaxQuota":
    case "WaitingForHosts":
      return [];
  }
}

/** Jobs for whom GPUs of these clusters are set apart. */
const reservedIn = ({ capacity }: Telling, clusters: ReadonlySet<ClusterId>): readonly JobId[] =>
  [...capacity.reserved.byJob.values()].flatMap(({ jobId, gpus }) => {
    const isThere = gpus.some(({ host }) => {
      const cluster = capacity.hosts.get(host)?.pool.cluster.id;
      return cluster !== undefined && clusters.has(cluster);
    });
    return isThere ? [jobId] : [];
  });

function allHolders(telling: Telling): Holders {
  const { capacity, snapshot, granted } = telling;
  if (telling.holders === undefined) {
    telling.holders = { all: noHolders(), noted: 0 };
    for (const lease of snapshot.leases.values())
      noteHolder(telling.holders.all, capacity.index, lease);
  }
  for (const grant of granted.slice(telling.holders.noted))
    noteHolder(telling.holders.all, capacity.index, grant);
  telling.holders.noted = granted.length;
  return telling.holders.all;
}
