/**
 * @file The jobs that a reason names: those that hold or reserve the GPUs that a request waits for, and the leases being given up for it.
 *
 * Cost: O(leases) once a cycle, when the first reason asks for it; then O(clusters) a reason.
 */

import type { ClusterId, JobId } from "../../domain/values/ids.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { EvictItem, PendingRequest } from "../../domain/lease/plan.ts";
import { quotaClaim } from "../admission/quota-claims.ts";
import { firstJobs, type HolderIndex } from "./holder-index.ts";
import type { ClusterFit, CycleView, WaitCode } from "../admission/feasibility.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** What reasons are made from. */
export interface ReasonContext extends CycleView {
  readonly snapshot: Pick<Ledger, "leases" | "links" | "reservations">;
  /** Evictions of this cycle. */
  readonly evictions: readonly Pick<EvictItem, "lease" | "forJob">[];
  /** Jobs with GPUs, those included that this cycle has started. */
  readonly holders: HolderIndex;
  /** The first job of a queue in which no request passes another. */
  readonly blocker: () => JobId | undefined;
}

/** The leases that are being given up for it. */
export const evictingFor = (
  { jobId }: PendingRequest,
  { snapshot, evictions }: ReasonContext,
): readonly Lease[] => [
  ...[...snapshot.leases.values()].filter(({ eviction }) => eviction?.forJob === jobId),
  ...evictions.flatMap(({ lease, forJob }) =>
    forJob === jobId ? (snapshot.leases.get(lease) ?? []) : [],
  ),
];

/** The jobs that would have to end, or start, first: at most `MAX_HOLDERS`, sorted. */
export function holdersOf(
  { tenant, jobId }: PendingRequest,
  code: WaitCode,
  {
    context,
    clusterFits,
    evicting,
  }: {
    readonly context: ReasonContext;
    readonly clusterFits: readonly ClusterFit[];
    readonly evicting: readonly Lease[];
  },
): readonly JobId[] {
  const clusters = clusterFits.flatMap(({ type }) => type.groups.map(({ cluster }) => cluster.id));
  const holders = context.holders();
  switch (code) {
    case "WaitingForQuota": {
      const keys = clusterFits.flatMap(({ quotaKey }) => quotaKey ?? []);
      const earlier = keys.map((key) => quotaClaim(context.claims, tenant, key).jobs);
      return firstJobs([holders.tenants.get(tenant) ?? [], ...earlier]);
    }
    case "WaitingForPreempted":
      return firstJobs([evicting.map((lease) => lease.jobId)]);
    case "BehindEarlierJob": {
      const reserved = reservedIn(context, new Set(clusters)).filter((job) => job !== jobId);
      const blocker = context.blocker();
      return firstJobs([reserved, blocker === undefined ? [] : [blocker]]);
    }
    case "WaitingForPower":
      return firstJobs(
        clusters.flatMap((cluster) => [...(holders.clusters.get(cluster)?.values() ?? [])]),
      );
    case "WaitingForGpus":
    case "WaitingForReplacement":
    case "WaitingForResources":
    case "TopologyPlacementFailed":
      return firstJobs(
        clusterFits.flatMap(({ type: { groups, gpuType } }) =>
          groups.map(({ cluster }) => holders.clusters.get(cluster.id)?.get(gpuType) ?? []),
        ),
      );
    case "NoMatchingFlavor":
    case "ExceedsMaxQuota":
    case "WaitingForHosts":
      return [];
  }
}

/** Jobs with reserved GPUs in these clusters. */
const reservedIn = (
  { capacity }: ReasonContext,
  clusters: ReadonlySet<ClusterId>,
): readonly JobId[] =>
  [...capacity.reserved.byJob.values()].flatMap(({ jobId, gpus }) => {
    const isThere = gpus.some(({ host }) => {
      const cluster = capacity.hosts.get(host)?.pool.cluster.id;
      return cluster !== undefined && clusters.has(cluster);
    });
    return isThere ? [jobId] : [];
  });
