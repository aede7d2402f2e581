/**
 * @file The GPUs of a lease as a plan's site: speeds and memory by type, ways by what the fleet says of its hosts, fabrics and links.
 *
 * What the fleet does not say is counted as `USUAL_WAYS`. NVLink carries `NVLINK_SHARE` of its data sheet's rate, which is what
 * all-reduce reaches on it; GPUs count as joined by it only where the fleet lists their NVLink domains.
 */

import type { ClusterShape, FleetShape, HostShape } from "../../domain/fleet.ts";
import { gpuTeraflops, nvlinkGbs, UNKNOWN_TERAFLOPS } from "../../domain/gpu-speed.ts";
import { clusterOf } from "../../domain/ids.ts";
import { popCount, type HostGpus } from "../../domain/lease.ts";
import { USUAL_WAYS, type PlanHost, type PlanSite, type Way } from "./site.ts";

const NVLINK_SHARE = 0.75;

/** Hosts that the shape does not know are left out. */
export function fleetSite(gpus: readonly HostGpus[], shape: FleetShape): PlanSite {
  const clusters = new Map(shape.clusters.map((cluster) => [String(cluster.id), cluster]));
  const hosts = gpus.flatMap(({ host, mask }): PlanHost[] => {
    const cluster = clusters.get(clusterOf(host));
    const found = cluster?.hosts.find(({ id }) => id === host);
    return cluster === undefined || found === undefined ? [] : [planHost(found, cluster, mask)];
  });
  return { hosts, ...waysOf(shape) };
}

export function waysOf({ clusters, links }: FleetShape): Pick<PlanSite, "fabric" | "between"> {
  const fabrics = new Map(clusters.map(({ id, fabricGbps }) => [String(id), fabricGbps]));
  const ways = new Map<string, Way>();
  // A link that stands in one direction only serves both; where both stand, the slower one counts.
  for (const { from, to, bandwidthGbps, latencyMs } of links) {
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
      return gbps === undefined ? USUAL_WAYS.fabric : { ...USUAL_WAYS.fabric, gbs: gbps / 8 };
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
  return gbs === undefined ? USUAL_WAYS.nvlink : { ...USUAL_WAYS.nvlink, gbs: gbs * NVLINK_SHARE };
}

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b));
