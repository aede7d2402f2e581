/**
 * @file The sets of two or more clusters that a gang may span: all clusters if it may span them all, else every set of the allowed size.
 *
 * Sets with fewest clusters and sites come first. If there are more than `MOST_SETS`, only sets of the clusters with the most GPUs to offer
 * are made; the set of the largest ones is always among them, so a gang that fits is not missed unless a site's watts bind.
 */

import type { ClusterPart, SitePart } from "./parts.ts";

export interface ClusterSet {
  readonly parts: readonly SitePart[];
  /** The parts that a gang touches at least when it uses the whole set and no smaller one. */
  readonly clusters: number;
  readonly sites: number;
}

interface Demand {
  readonly gpus: number;
  readonly maxClusters: number;
}

const MOST_SETS = 64;

export function clusterSets(
  parts: readonly SitePart[],
  { gpus, maxClusters }: Demand,
): readonly ClusterSet[] {
  const clusters = parts.flatMap((site) => site.clusters).filter(({ most }) => most > 0);
  if (clusters.length <= 1) return [];
  if (clusters.length <= maxClusters) return [{ parts, clusters: 2, sites: 1 }];
  const open = [...clusters]
    .sort((a, b) => b.most - a.most)
    .slice(0, widest(clusters.length, maxClusters));
  const kept = clusters.filter((cluster) => open.includes(cluster));
  const sets: ClusterSet[] = [];
  for (let count = 2; count <= maxClusters; count += 1) {
    for (const chosen of choices(kept, count)) {
      const held = withinClusters(parts, chosen);
      if (held.reduce((sum, { most }) => sum + most, 0) < gpus) continue;
      sets.push({ parts: held, clusters: count, sites: held.length });
    }
  }
  return sets.sort((a, b) => a.clusters - b.clusters || a.sites - b.sites);
}

/** Of how many clusters all sets can be looked at; as many as the gang may span, at least. */
function widest(clusters: number, maxClusters: number): number {
  for (let width = clusters; width > maxClusters; width -= 1) {
    let sets = 0;
    let ofCount = width;
    for (let count = 2; count <= maxClusters && sets <= MOST_SETS; count += 1) {
      ofCount = (ofCount * (width - count + 1)) / count;
      sets += ofCount;
    }
    if (sets <= MOST_SETS) return width;
  }
  return maxClusters;
}

function* choices(
  clusters: readonly ClusterPart[],
  count: number,
  from = 0,
): Generator<readonly ClusterPart[]> {
  if (count === 0) {
    yield [];
    return;
  }
  for (let at = from; at + count <= clusters.length; at += 1) {
    const first = clusters[at];
    if (first === undefined) return;
    for (const rest of choices(clusters, count - 1, at + 1)) yield [first, ...rest];
  }
}

/** The parts of the fleet that these clusters are. */
export function withinClusters(
  parts: readonly SitePart[],
  chosen: readonly ClusterPart[],
): readonly SitePart[] {
  return parts.flatMap((site) => {
    const clusters = site.clusters.filter((cluster) => chosen.includes(cluster));
    if (clusters.length === 0) return [];
    const most = Math.min(
      site.most,
      clusters.reduce((sum, cluster) => sum + cluster.most, 0),
    );
    return [{ clusters, most }];
  });
}
