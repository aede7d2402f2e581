/**
 * @file Pairs a policy that chooses clusters with one that chooses GPUs inside a cluster, as one placement policy.
 *
 * The first reads what each cluster offers in each GPU type within the watts, the second the hosts of the chosen clusters.
 * Neither knows the budgets of racks and sites: where those bind, the answer is checked, and there may be none.
 * Cost: O(hosts) to add up the offers, then the cost of both.
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { PickPolicy, PickPorts } from "../pick/pick-policy.ts";
import type { HostLayout } from "../placement/layout.ts";
import type { PlaceDemand, PlaceHost, PlacePolicy } from "../placement/place-policy.ts";
import type { ClusterOffer, PlacementPolicy } from "../placement/placement-policy.ts";
import { gpusWithinWatts, isWithinWatts } from "../placement/watts.ts";

export interface PolicyPair {
  readonly placement: PlacementPolicy;
  readonly pick: PickPolicy;
}

export const pairPolicy =
  ({ placement, pick }: PolicyPair, ports: PickPorts = {}): PlacePolicy =>
  (demand, hosts) => {
    const groups = groupsOf(demand, hosts);
    const answer = placement(
      demand,
      groups.map(({ offer }) => offer),
    );
    let candidates = hosts.length + answer.candidates;
    const found = answer.placement;
    if (found === undefined) return { candidates };
    const gpus: HostGpus[] = [];
    for (const part of found.parts) {
      const group = groups.find(
        ({ offer }) => offer.cluster === part.cluster && offer.gpuType === found.gpuType,
      );
      if (group === undefined) return { candidates };
      const wanted = {
        gpus: part.gpus,
        isSameHost: demand.isSameHost,
        wattsLeft: group.wattsLeft,
      };
      const picked = pick(wanted, group.hosts.map(asPickHost), ports);
      candidates += picked.candidates;
      if (picked.gpus === undefined) return { candidates };
      gpus.push(...picked.gpus);
    }
    if (!isWithinWatts(demand.wattsLeft, hosts, gpus)) return { candidates };
    return { gpus: gpus.sort((a, b) => byCodeUnit(a.host, b.host)), candidates };
  };

interface Group {
  readonly offer: ClusterOffer;
  readonly wattsLeft: number;
  /** By host id. */
  readonly hosts: readonly PlaceHost[];
}

/** One for each cluster and GPU type, in the fleet's order. */
function groupsOf({ wattsLeft }: PlaceDemand, hosts: readonly PlaceHost[]): readonly Group[] {
  const alike = new Map<string, PlaceHost[]>();
  for (const host of [...hosts].sort((a, b) => a.at.order - b.at.order)) {
    if (host.freeMask === 0) continue;
    const key = JSON.stringify([host.at.cluster, host.at.gpuType]);
    const group = alike.get(key);
    if (group === undefined) alike.set(key, [host]);
    else group.push(host);
  }
  return [...alike.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const left = wattsLeft?.cluster?.(first.at) ?? Infinity;
    return [{ offer: offerOf(first.at, group, left), wattsLeft: left, hosts: group }];
  });
}

function offerOf(first: HostLayout, hosts: readonly PlaceHost[], wattsLeft: number): ClusterOffer {
  let gpus = 0;
  let largestHostGpus = 0;
  let left = wattsLeft;
  for (const { at, freeMask } of [...hosts].sort((a, b) => a.at.gpuWatts - b.at.gpuWatts)) {
    const free = popCount(freeMask);
    const count = Math.min(free, gpusWithinWatts(left, at.gpuWatts));
    gpus += count;
    left -= count * at.gpuWatts;
    largestHostGpus = Math.max(
      largestHostGpus,
      Math.min(free, gpusWithinWatts(wattsLeft, at.gpuWatts)),
    );
  }
  return {
    cluster: first.clusterId,
    gpuType: first.gpuType,
    gpus,
    largestHostGpus,
    hasFabric: first.hasFabric,
    rank: first.order,
  };
}

const asPickHost = ({ at, freeMask }: PlaceHost) => ({
  host: at.host,
  freeMask,
  gpuCount: at.gpuCount,
  gpuWatts: at.gpuWatts,
});
