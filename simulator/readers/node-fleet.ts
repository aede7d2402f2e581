/**
 * @file A machine list as a fleet: one cluster and one site of all machines, four to a rack in the order of the list.
 *
 * What a list does not say is filled: each machine's GPUs are one NVLink domain, one fabric of 400 Gbit/s joins the machines, and a GPU type
 * that is not well known has 80 GiB and draws 400 W. The simulator's figures depend on counts and types, not on these.
 */

import type { FleetShape, TenantRule } from "../../domain/fleet/fleet.ts";
import { knownGpuType } from "../../domain/values/gpu-types.ts";
import { clusterId, hostId } from "../../domain/values/ids.ts";
import { gbps, gib, watts } from "../../domain/values/units.ts";
import type { NodeRow } from "./nodes.ts";

const HOSTS_PER_RACK = 4;
const CLUSTER = "trace";
const UNKNOWN_TYPE = { memoryGiB: gib(80), watts: watts(400) };

export function nodeFleet(
  nodes: readonly NodeRow[],
  tenants: readonly TenantRule[] = [],
): FleetShape {
  const id = clusterId(CLUSTER);
  const hosts = nodes.map(({ name, gpus, gpuType }, at) => {
    const facts = knownGpuType(gpuType) ?? UNKNOWN_TYPE;
    return {
      id: hostId(id, name),
      gpuType,
      gpuCount: gpus,
      gpuMemoryGiB: facts.memoryGiB,
      gpuWatts: facts.watts,
      rack: `r${String(Math.floor(at / HOSTS_PER_RACK))}`,
    };
  });
  const cluster = {
    id,
    site: CLUSTER,
    jurisdiction: "unknown",
    fabricGbps: gbps(400),
    isSimulated: true,
    hosts,
  };
  return { clusters: [cluster], links: [], tenants };
}
