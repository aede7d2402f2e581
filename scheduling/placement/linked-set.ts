/**
 * @file The clusters that a gang over several of them lies in where links are known: the lexicographic optimum (best-clusters.ts) over what each can give,
 * or the nearest by latency or price (nearest-clusters.ts) where the job prefers that.
 *
 * What the tables of least-spread.ts do inside the set is their business: hosts and GPUs at the least spread. A set that the watts of a site shut out, or
 * none because no path of links joins enough, is no answer; then the sets of cluster-sets.ts are tried, so that links decide where a gang
 * goes and never whether. Cost: that of the optimum.
 */

import type { LinkPreference } from "../../domain/job.ts";
import { bestClusters } from "./best-clusters.ts";
import { withinClusters } from "./cluster-sets.ts";
import { bottleneckOf } from "./link-graph.ts";
import { MOST_NODES, nearestClusters } from "./nearest-clusters.ts";
import type { ClusterPart, SitePart } from "./parts.ts";
import type { LinkPorts } from "./place-policy.ts";

interface Wish {
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
  { gpus, maxClusters, prefer = "bandwidth" }: Wish,
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
  const wish = { gpus, maxClusters };
  const room = { links: loaded, free };
  const { choice, work } =
    prefer === "bandwidth"
      ? bestClusters(wish, room)
      : nearestClusters(wish, room, { prefer, mostNodes: MOST_NODES });
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
