/**
 * @file The GPUs of a lease as the site of a parallelism plan: speeds and memory by type, links from the fleet's hosts, fabrics and links.
 *
 * Where the fleet's description is silent, `USUAL_WAYS` counts. NVLink carries `NVLINK_SHARE` of its data sheet's rate, the rate that
 * all-reduce reaches on it; GPUs count as joined by NVLink only where the fleet lists their NVLink domains.
 */

import type { ClusterShape, FleetShape, HostShape } from "../../domain/fleet/fleet.ts";
import { gpuTeraflops, nvlinkGbs, UNKNOWN_TERAFLOPS } from "../../domain/values/gpu-speed.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import { USUAL_WAYS, type PlanHost, type PlanSite, type Way } from "./site.ts";

const NVLINK_SHARE = 0.75;

/** Hosts that the fleet's shape lacks are left out. */
export const fleetSite = (gpus: readonly HostGpus[], shape: FleetShape): PlanSite =>
  fleetSites(shape)(gpus);

/** The sites of many leases of one fleet. Cost: O(hosts of the fleet) once, then O(hosts of the lease) each. */
export function fleetSites(shape: FleetShape): (gpus: readonly HostGpus[]) => PlanSite {
  const known = new Map(
    shape.clusters.flatMap((cluster) =>
      cluster.hosts.map((host) => [host.id, { host, cluster }] as const),
    ),
  );
  const ways = waysOf(shape);
  return (gpus) => ({
    hosts: gpus.flatMap(({ host, mask }): PlanHost[] => {
      const found = known.get(host);
      return found === undefined ? [] : [planHost(found.host, found.cluster, mask)];
    }),
    ...ways,
  });
}

export function waysOf({ clusters, links }: FleetShape): Pick<PlanSite, "fabric" | "between"> {
  const fabrics = new Map(clusters.map(({ id, fabricGbps }) => [String(id), fabricGbps]));
  const ways = new Map<string, Way>();
  const widest = new Map<string, number>();
  // A link described in one direction serves both; where both are described, the slower one counts.
  for (const { from, to, bandwidthGbps, latencyMs } of links) {
    for (const end of [from, to])
      widest.set(end, Math.max(bandwidthGbps / 8, widest.get(end) ?? 0));
    for (const key of [`${from} ${to}`, `${to} ${from}`]) {
      const held = ways.get(key);
      ways.set(key, {
        gbs: Math.min(bandwidthGbps / 8, held?.gbs ?? Infinity),
        latencyMs: Math.max(latencyMs, held?.latencyMs ?? 0),
      });
    }
  }
  return {
    fabric: (cluster) => {
      const gbps = fabrics.get(cluster);
      if (gbps !== undefined) return { ...USUAL_WAYS.fabric, gbs: gbps / 8, isAssumed: false };
      // A network card that nobody stated is at least as wide as the widest stated link of its cluster.
      return {
        ...USUAL_WAYS.fabric,
        gbs: Math.max(USUAL_WAYS.fabric.gbs, widest.get(cluster) ?? 0),
      };
    },
    between: (from, to) => ways.get(`${from} ${to}`) ?? USUAL_WAYS.wan,
  };
}

function planHost(host: HostShape, cluster: ClusterShape, mask: number): PlanHost {
  const joined = (host.nvlinkDomains ?? []).map((domain) => popCount(domain & mask));
  const sizes = joined.filter((size) => size > 0);
  // Every group of neighbours of this size lies within one domain.
  const nvlinkGpus = sizes.length === 0 ? 1 : sizes.reduce(commonDivisor);
  return {
    id: host.id,
    cluster: cluster.id,
    gpuType: host.gpuType,
    gpuCount: popCount(mask),
    memoryGiB: host.gpuMemoryGiB,
    teraflops: gpuTeraflops(host.gpuType) ?? UNKNOWN_TERAFLOPS,
    inside: insideOf(host.gpuType, nvlinkGpus > 1),
    nvlinkGpus,
  };
}

export function insideOf(gpuType: string, hasNvlink: boolean): Way {
  if (!hasNvlink) return USUAL_WAYS.pcie;
  const gbs = nvlinkGbs(gpuType);
  return gbs === undefined
    ? USUAL_WAYS.nvlink
    : { ...USUAL_WAYS.nvlink, gbs: gbs * NVLINK_SHARE, isAssumed: false };
}

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b));
