/**
 * @file Chooses the clusters of a gang that spans several, where links are known.
 *
 * The lexicographic optimum (best-clusters.ts) over the GPUs that each cluster can give, or the nearest clusters by latency or price
 * (nearest-clusters.ts) where the job prefers that. Inside the set the tables of least-spread.ts choose hosts and GPUs. If a site's watts
 * exclude the set, or no path of links joins enough clusters, there is no answer; then the sets of cluster-sets.ts are tried, so links decide
 * where a gang goes and never whether. Cost: that of the optimum.
 */

import type { LinkPreference } from "../../domain/job/job.ts";
import { bestClusters } from "./best-clusters.ts";
import { withinClusters } from "./cluster-sets.ts";
import { bottleneckOf } from "./link-graph.ts";
import { MOST_NODES, nearestClusters } from "./nearest-clusters.ts";
import type { ClusterPart, SitePart } from "./parts.ts";
import type { LinkPorts } from "./place-policy.ts";

interface Demand {
  readonly gpus: number;
  readonly maxClusters: number;
  readonly prefer?: LinkPreference | undefined;
}

export interface LinkedSet {
  readonly parts: readonly SitePart[];
  readonly work: number;
}

export function linkedSet(
  parts: readonly SitePart[],
  { gpus, maxClusters, prefer = "bandwidth" }: Demand,
  links: LinkPorts,
): LinkedSet | undefined {
  const loaded = links.loaded();
  const free = new Int32Array(loaded.graph.count);
  const byNumber = new Map<number, ClusterPart>();
  for (const part of parts.flatMap(({ clusters }) => clusters)) {
    const number = part.racks[0]?.hosts[0]?.at.cluster;
    if (number === undefined || number >= free.length) continue;
    free[number] = Math.min(gpus, part.most);
    byNumber.set(number, part);
  }
  const demand = { gpus, maxClusters };
  const room = { links: loaded, free };
  const { choice, work } =
    prefer === "bandwidth"
      ? bestClusters(demand, room)
      : nearestClusters(demand, room, { prefer, mostNodes: MOST_NODES });
  if (choice === undefined) return undefined;
  const chosen = choice.clusters.flatMap((number) => byNumber.get(number) ?? []);
  return { parts: withinClusters(parts, chosen), work };
}

/** The width between the clusters of these GPUs, in GB/s, as it was for them; undefined in one cluster. */
export function linkGbsOf(clusters: readonly number[], links: LinkPorts): number | undefined {
  if (clusters.length < 2) return undefined;
  return bottleneckOf(links.loaded(), clusters) / BITS;
}

const BITS = 8;
