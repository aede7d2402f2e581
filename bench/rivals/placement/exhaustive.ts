/**
 * @file Tries every set of free GPUs: the oracle of the placement policies at small size.
 *
 * Of the sets that keep all demands the one whose communication costs least; ties go to the set found first, in the fleet's order. It
 * uses no trees or bounds and evaluates whole sets only. Cost: O(2^free GPUs); refuses more than `MOST_GPUS`.
 */

import { byCodeUnit, clusterOf } from "../../../domain/values/ids.ts";
import { popCount, type HostGpus } from "../../../domain/lease/lease.ts";
import type {
  PlaceDemand,
  PlaceHost,
  PlacePolicy,
} from "../../../scheduling/placement/place-policy.ts";
import { costOf } from "../../../scheduling/placement/spread.ts";
import { isWithinWatts } from "../../../scheduling/placement/watts.ts";

const MOST_GPUS = 20;

export const exhaustive: PlacePolicy = (demand, hosts, { spread }) => {
  const free = hosts.reduce((sum, { freeMask }) => sum + popCount(freeMask), 0);
  if (free > MOST_GPUS) throw new RangeError(`${free} free GPUs are too many to try all sets`);
  const inOrder = [...hosts].sort((a, b) => a.at.order - b.at.order);
  let candidates = 0;
  let best: readonly HostGpus[] | undefined;
  let least = Infinity;
  for (const gpus of setsOf(inOrder, demand.gpus)) {
    candidates += 1;
    if (!isAllowed(demand, hosts, gpus)) continue;
    const cost = costOf(gpus, spread);
    if (cost >= least) continue;
    best = gpus;
    least = cost;
  }
  if (best === undefined) return { candidates };
  return { gpus: [...best].sort((a, b) => byCodeUnit(a.host, b.host)), candidates };
};

/** Whether a set of free GPUs keeps what is demanded, its size aside. Cost: O(hosts). */
export function isAllowed(
  { maxClusters, isSameHost, isSameFabric, wattsLeft }: PlaceDemand,
  hosts: readonly PlaceHost[],
  gpus: readonly HostGpus[],
): boolean {
  const used = hosts.filter(({ at }) => gpus.some(({ host }) => host === at.host));
  const clusters = new Set(gpus.map(({ host }) => clusterOf(host)));
  return (
    new Set(used.map(({ at }) => at.gpuType)).size <= 1 &&
    clusters.size <= (isSameFabric ? 1 : maxClusters) &&
    (!isSameHost || gpus.length <= 1) &&
    (!isSameFabric || used.every(({ at }) => at.hasFabric)) &&
    isWithinWatts(wattsLeft, hosts, gpus)
  );
}

function* setsOf(hosts: readonly PlaceHost[], gpus: number): Generator<readonly HostGpus[]> {
  const [first, ...others] = hosts;
  if (gpus === 0) {
    yield [];
    return;
  }
  if (first === undefined) return;
  const { at, freeMask } = first;
  for (let mask = freeMask; ; mask = (mask - 1) & freeMask) {
    const count = popCount(mask);
    if (count <= gpus) {
      const own = mask === 0 ? [] : [{ host: at.host, mask }];
      for (const rest of setsOf(others, gpus - count)) yield [...own, ...rest];
    }
    if (mask === 0) return;
  }
}
