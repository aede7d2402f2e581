/**
 * @file Fleets to simulate on: the paper's 1,798 GPUs in three sites, and plain ones of any size.
 *
 * Hosts have 8 GPUs in one NVLink domain and stand four to a rack; a site is one cluster with one fabric. The paper's number is no
 * multiple of 8: the last host of its third site has 6.
 */

import type { ClusterShape, FleetPolicy, FleetShape, TenantRule } from "../domain/fleet/fleet.ts";
import { clusterId, hostId } from "../domain/values/ids.ts";
import { gbps, gib, ms, watts } from "../domain/values/units.ts";

export const GPUS_PER_HOST = 8;
export const HOSTS_PER_RACK = 4;
const GPU_WATTS = 700;

/** GPUs by site. */
export const PAPER_SITES: readonly number[] = Object.freeze([640, 640, 518]);

export interface FleetRules {
  readonly tenants?: readonly TenantRule[];
  readonly policy?: FleetPolicy;
  /** `HOSTS_PER_RACK` when absent. */
  readonly hostsPerRack?: number;
}

export const paperFleet = (rules: FleetRules = {}): FleetShape => fleetOf(PAPER_SITES, rules);

/** `sites` gives the GPUs of each. */
export function fleetOf(
  sites: readonly number[],
  { tenants = [], policy, hostsPerRack = HOSTS_PER_RACK }: FleetRules = {},
): FleetShape {
  const clusters = sites.map((gpus, at) => siteOf(gpus, at, hostsPerRack));
  return {
    clusters,
    links: clusters.flatMap(({ id: from }, at) =>
      clusters.slice(at + 1).map(({ id: to }) => ({
        from,
        to,
        bandwidthGbps: gbps(100),
        latencyMs: ms(10),
      })),
    ),
    tenants,
    ...(policy !== undefined && { policy }),
  };
}

function siteOf(gpus: number, at: number, hostsPerRack: number): ClusterShape {
  const id = clusterId(`site-${String(at + 1)}`);
  return {
    id,
    site: `site-${String(at + 1)}`,
    jurisdiction: "EU",
    fabricGbps: gbps(400),
    isSimulated: true,
    hosts: Array.from({ length: Math.ceil(gpus / GPUS_PER_HOST) }, (_, host) => ({
      id: hostId(id, `h${String(host).padStart(4, "0")}`),
      gpuType: "H100",
      gpuCount: Math.min(GPUS_PER_HOST, gpus - host * GPUS_PER_HOST),
      gpuMemoryGiB: gib(80),
      gpuWatts: watts(GPU_WATTS),
      rack: `r${String(Math.floor(host / hostsPerRack))}`,
    })),
  };
}
