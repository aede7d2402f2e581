/**
 * @file Bin-packing: the gang on as few hosts as possible, and on those where least is left over. A rival.
 *
 * One host where one suffices: the one with fewest free GPUs that hold the gang. Else the hosts with most free GPUs, until one
 * suffices for the rest, which is again the fullest that does. Clusters likewise: the one with fewest free GPUs that hold the gang, else those with
 * most. Lowest GPUs of a host; ties in the fleet's order. Distance is not looked at. Where watts forbid it, thriftiest.ts answers.
 * Cost: O(hosts · log hosts).
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import { lowestBits } from "../../lib/bits.ts";
import type { PlaceHost, PlacePolicy } from "../../scheduling/placement/place-policy.ts";
import { thriftiest } from "../../scheduling/placement/thriftiest.ts";
import { isWithinWatts } from "../../scheduling/placement/watts.ts";

export const bestFit: PlacePolicy = (demand, hosts, ports) => {
  const { gpus, isSameHost, isSameFabric } = demand;
  const maxClusters = isSameFabric ? 1 : demand.maxClusters;
  const usable = hosts
    .filter(({ at, freeMask }) => freeMask !== 0 && (!isSameFabric || at.hasFabric))
    .sort((a, b) => a.at.order - b.at.order);
  const bins = binsOf(usable);
  const whole = tightest(
    usable.filter(({ freeMask }) => popCount(freeMask) >= gpus),
    ({ freeMask }) => popCount(freeMask),
  );
  const bin = tightest(
    bins.filter(({ free }) => free >= gpus),
    ({ free }) => free,
  );
  const reach =
    whole !== undefined ? [whole] : isSameHost ? [] : (bin?.hosts ?? largest(bins, maxClusters));
  const packed = pack(reach, gpus);
  if (packed !== undefined && isWithinWatts(demand.wattsLeft, hosts, packed))
    return { gpus: packed, candidates: hosts.length };
  const thrifty = thriftiest(demand, hosts, ports);
  return { ...thrifty, candidates: hosts.length + thrifty.candidates };
};

/** The hosts of one cluster and GPU type. */
interface Bin {
  readonly gpuType: string;
  readonly hosts: readonly PlaceHost[];
  readonly free: number;
}

function binsOf(hosts: readonly PlaceHost[]): readonly Bin[] {
  const alike = new Map<string, PlaceHost[]>();
  for (const host of hosts) {
    const key = JSON.stringify([host.at.cluster, host.at.gpuType]);
    const bin = alike.get(key);
    if (bin === undefined) alike.set(key, [host]);
    else bin.push(host);
  }
  return [...alike.values()].map((inBin) => ({
    gpuType: inBin[0]?.at.gpuType ?? "",
    hosts: inBin,
    free: inBin.reduce((sum, { freeMask }) => sum + popCount(freeMask), 0),
  }));
}

/** The first of the smallest. */
function tightest<Item>(items: readonly Item[], sizeOf: (item: Item) => number): Item | undefined {
  let best: Item | undefined;
  for (const item of items) {
    if (best === undefined || sizeOf(item) < sizeOf(best)) best = item;
  }
  return best;
}

/** The hosts of the clusters with most free GPUs, of the type that has most in so many clusters. */
function largest(bins: readonly Bin[], maxClusters: number): readonly PlaceHost[] {
  const types = [...new Set(bins.map(({ gpuType }) => gpuType))].map((gpuType) => {
    const ofType = bins
      .filter((bin) => bin.gpuType === gpuType)
      .sort((a, b) => b.free - a.free)
      .slice(0, maxClusters);
    return { ofType, free: ofType.reduce((sum, { free }) => sum + free, 0) };
  });
  const most = tightest(types, ({ free }) => -free);
  return most?.ofType.flatMap(({ hosts }) => hosts) ?? [];
}

function pack(hosts: readonly PlaceHost[], gpus: number): readonly HostGpus[] | undefined {
  const left = [...hosts].sort(
    (a, b) => popCount(b.freeMask) - popCount(a.freeMask) || a.at.order - b.at.order,
  );
  const taken: HostGpus[] = [];
  let open = gpus;
  while (open > 0) {
    const fits = tightest(
      left.filter(({ freeMask }) => popCount(freeMask) >= open),
      ({ freeMask }) => popCount(freeMask),
    );
    const next = fits ?? left.shift();
    if (next === undefined) return undefined;
    const mask = lowestBits(next.freeMask, open);
    taken.push({ host: next.at.host, mask });
    open -= popCount(mask);
  }
  return taken.sort((a, b) => byCodeUnit(a.host, b.host));
}
