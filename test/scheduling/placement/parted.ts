/** @file Parts of small fleets with drawn free GPUs for the tests of cover tables, and every way to take GPUs from them. */
import fc from "fast-check";
import { popCount, type HostGpus } from "../../../domain/lease/lease.ts";
import { exactCost } from "../../../scheduling/placement/cover.ts";
import { partsOf, type SitePart } from "../../../scheduling/placement/parts.ts";
import type { PlaceHost } from "../../../scheduling/placement/place-policy.ts";
import { openSpread, partWeights, type PerLevel } from "../../../scheduling/placement/spread.ts";
import { fleetOf, type RackSpec } from "./fleets.ts";

const DEMAND = { gpus: 1, maxClusters: 9, isSameHost: false, isSameFabric: false };

/** Hosts of three GPUs in one domain and one NUMA node each. */
const SMALL = { gpuCount: 3 };

export const RACKS: readonly RackSpec[] = [
  { cluster: "c0", rack: "r0", hosts: 2, kind: SMALL },
  { cluster: "c0", rack: "r1", hosts: 1, kind: SMALL },
  { cluster: "c1", rack: "r0", hosts: 1, kind: SMALL },
  { site: "s1", cluster: "c2", rack: "r0", hosts: 1, kind: SMALL },
];
const spread = openSpread(fleetOf(RACKS));
export const LAYOUTS = [...spread.layout.values()];

export const anyMasks = fc.array(fc.integer({ min: 0, max: 0b111 }), {
  minLength: LAYOUTS.length,
  maxLength: LAYOUTS.length,
});

export function hostsOf(masks: readonly number[]): readonly PlaceHost[] {
  return LAYOUTS.map((at, index) => ({ at, freeMask: masks[index] ?? 0 })).filter(
    ({ freeMask }) => freeMask !== 0,
  );
}

export const sitesOf = (hosts: readonly PlaceHost[]): readonly SitePart[] => partsOf(hosts, DEMAND);

/** What each touched part costs a gang of this size, as in the policy. */
export function weightsOf(gpus: number): PerLevel {
  const { domain, numa, host, rack, cluster, site } = partWeights(spread, "H100", gpus);
  return {
    domain: exactCost(domain),
    numa: exactCost(numa),
    host: exactCost(host),
    rack: exactCost(rack),
    cluster: exactCost(cluster),
    site: exactCost(site),
  };
}

export type Level = "rack" | "cluster" | "site";

/** The price of touching these hosts, up to the given level. */
export function costOfHosts(used: readonly PlaceHost[], weights: PerLevel, upTo: Level): number {
  const levels = {
    rack: ["rack"],
    cluster: ["rack", "cluster"],
    site: ["rack", "cluster", "site"],
  };
  let cost = used.length * (weights.domain + weights.numa + weights.host);
  for (const level of ["rack", "cluster", "site"] as const)
    if (levels[upTo].includes(level))
      cost += weights[level] * new Set(used.map(({ at }) => at[level])).size;
  return cost;
}

/** The lowest price of so many GPUs out of these hosts; infinite when they have fewer. */
export function leastCost(
  hosts: readonly PlaceHost[],
  gpus: number,
  priceOf: (used: readonly PlaceHost[]) => number,
): number {
  let best = Infinity;
  for (let chosen = 0; chosen < 2 ** hosts.length; chosen += 1) {
    const used = hosts.filter((_, at) => ((chosen >> at) & 1) === 1);
    const free = used.reduce((sum, { freeMask }) => sum + popCount(freeMask), 0);
    if (used.length <= gpus && gpus <= free) best = Math.min(best, priceOf(used));
  }
  return best;
}

/** The hosts that an answer uses; fails when it takes a GPU that is not free. */
export function usedBy(chosen: readonly HostGpus[], hosts: readonly PlaceHost[]): PlaceHost[] {
  return chosen.map(({ host, mask }) => {
    const found = hosts.find(({ at }) => at.host === host);
    if (found === undefined || mask === 0 || (mask & ~found.freeMask) !== 0)
      throw new Error(`${host} does not have ${mask} free`);
    return found;
  });
}
