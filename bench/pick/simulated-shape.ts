/** @file The fleet of a bench whose only cluster has the hosts of a domain. */

import type { BandwidthDomain } from "../../domain/bandwidth/bandwidth-port.ts";
import { DEFAULT_POLICY, type FleetShape } from "../../domain/fleet/fleet.ts";
import { clusterOf } from "../../domain/values/ids.ts";
import { gbps, gib, watts } from "../../domain/values/units.ts";

export function simulatedShape(
  hosts: BandwidthDomain["hosts"],
  policy: FleetShape["policy"] = DEFAULT_POLICY,
): FleetShape {
  const [first] = hosts;
  if (first === undefined) throw new Error("a cluster has hosts");
  const id = clusterOf(first.id);
  return {
    clusters: [
      {
        id,
        site: id,
        jurisdiction: "EU",
        fabricGbps: gbps(400),
        isSimulated: true,
        hosts: hosts.map(({ id: host, gpuType, gpuCount, rack }) => ({
          id: host,
          gpuType,
          gpuCount,
          gpuMemoryGiB: gib(80),
          gpuWatts: watts(700),
          ...(rack !== undefined && { rack }),
        })),
      },
    ],
    links: [],
    tenants: [],
    policy,
  };
}
