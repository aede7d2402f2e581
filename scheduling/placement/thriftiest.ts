/**
 * @file Takes the GPUs with the lowest draw, wherever they are: the last resort where watts are scarce and hosts draw differently.
 *
 * In each set of clusters that the gang may span, alone or the largest together, GPUs are taken by least draw, then in the fleet's order,
 * within the budgets of their rack, cluster and site; the first set that suffices is the answer. Exact where only clusters have budgets: no
 * other choice of as many GPUs draws less. Communication is ignored. Cost: O(clusters · hosts · log hosts).
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import { lowestBits } from "../../lib/bits.ts";
import type { PlaceDemand, PlaceHost, PlacePolicy } from "./place-policy.ts";
import { BUDGETS, gpusWithinWatts } from "./watts.ts";

export const thriftiest: PlacePolicy = (demand, hosts) => {
  const usable = hosts
    .filter(({ at, freeMask }) => freeMask !== 0 && (!demand.isSameFabric || at.hasFabric))
    .sort((a, b) => a.at.gpuWatts - b.at.gpuWatts || a.at.order - b.at.order);
  const types = [...new Set(usable.map(({ at }) => at.gpuType))].sort(byCodeUnit);
  let candidates = hosts.length;
  for (const gpuType of types) {
    const ofType = usable.filter(({ at }) => at.gpuType === gpuType);
    for (const reach of reaches(ofType, demand)) {
      candidates += reach.length;
      const taken = takeWithin(reach, demand);
      if (gpuCount(taken) < demand.gpus) continue;
      return { gpus: [...taken].sort((a, b) => byCodeUnit(a.host, b.host)), candidates };
    }
  }
  return { candidates };
};

const gpuCount = (gpus: readonly HostGpus[]): number =>
  gpus.reduce((sum, { mask }) => sum + popCount(mask), 0);

/** The hosts that may serve the gang together: one host, one cluster, or the clusters that can give most. */
function reaches(
  hosts: readonly PlaceHost[],
  demand: PlaceDemand,
): readonly (readonly PlaceHost[])[] {
  if (demand.isSameHost) return hosts.map((host) => [host]);
  const clusters = [...new Set(hosts.map(({ at }) => at.cluster))].sort((a, b) => a - b);
  const single = clusters.map((cluster) => hosts.filter(({ at }) => at.cluster === cluster));
  if (demand.maxClusters <= 1 || demand.isSameFabric) return single;
  const unbounded = { ...demand, gpus: Infinity };
  const largest = single
    .map((ofCluster) => ({ ofCluster, most: gpuCount(takeWithin(ofCluster, unbounded)) }))
    .sort((a, b) => b.most - a.most)
    .slice(0, demand.maxClusters)
    .flatMap(({ ofCluster }) => ofCluster);
  return [...single, hosts.filter((host) => largest.includes(host))];
}

/** As many as are wanted, or all that the budgets allow. */
function takeWithin(
  hosts: readonly PlaceHost[],
  { gpus, wattsLeft = {} }: PlaceDemand,
): readonly HostGpus[] {
  const left = BUDGETS.map((level) => ({ level, watts: new Map<number, number>() }));
  const taken: HostGpus[] = [];
  let open = gpus;
  for (const { at, freeMask } of hosts) {
    let most = Math.min(open, popCount(freeMask));
    for (const { level, watts } of left) {
      const own = watts.get(at[level]) ?? wattsLeft[level]?.(at) ?? Infinity;
      watts.set(at[level], own);
      most = Math.min(most, gpusWithinWatts(own, at.gpuWatts));
    }
    if (most <= 0) continue;
    taken.push({ host: at.host, mask: lowestBits(freeMask, most) });
    open -= most;
    for (const { level, watts } of left) {
      watts.set(at[level], (watts.get(at[level]) ?? 0) - most * at.gpuWatts);
    }
  }
  return taken;
}
