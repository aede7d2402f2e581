/** @file Small fleets for the tests of placement: hosts written as `site/cluster/rack: count × kind`. */

import type { ClusterShape, FleetShape, HostShape } from "../../../domain/fleet/fleet.ts";
import { clusterId, hostId } from "../../../domain/values/ids.ts";
import { gbps, gib, watts } from "../../../domain/values/units.ts";

export interface RackSpec {
  readonly site?: string;
  readonly cluster: string;
  /** Absent: the hosts have no rack's name. */
  readonly rack?: string;
  readonly hosts: number;
  readonly kind?: Partial<Omit<HostShape, "id">>;
}

/** Two domains of four, each a NUMA node of its own. */
export const HALVES = {
  nvlinkDomains: [0b00001111, 0b11110000],
  numaNodes: [0b00001111, 0b11110000],
} as const;

/** Hosts are named `h0`, `h1`, … through the cluster; eight H100 each unless `kind` says otherwise. */
export function fleetOf(racks: readonly RackSpec[]): Pick<FleetShape, "clusters"> {
  const clusters = new Map<string, { readonly site: string; readonly hosts: HostShape[] }>();
  for (const { site = "s0", cluster, rack, hosts, kind } of racks) {
    const known = clusters.get(cluster) ?? { site, hosts: [] };
    clusters.set(cluster, known);
    for (let at = 0; at < hosts; at += 1) {
      known.hosts.push({
        id: hostId(cluster, `h${String(known.hosts.length)}`),
        gpuType: "H100",
        gpuCount: 8,
        gpuMemoryGiB: gib(80),
        gpuWatts: watts(700),
        ...(rack !== undefined && { rack }),
        ...kind,
      });
    }
  }
  return {
    clusters: [...clusters].map(([name, { site, hosts }]): ClusterShape => ({
      id: clusterId(name),
      site,
      jurisdiction: "EU",
      fabricGbps: gbps(400),
      hosts,
      isSimulated: false,
    })),
  };
}
