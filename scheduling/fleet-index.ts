/** @file A fleet's shape by id, for look-ups: built once per event or decision. Cost: O(hosts + tenants). */

import type { ClusterShape, FleetShape, HostShape, TenantRule } from "../domain/fleet.ts";
import type { HostId, TenantId } from "../domain/ids.ts";

export interface HostPlace {
  readonly host: HostShape;
  readonly cluster: ClusterShape;
}

export interface FleetIndex {
  readonly clusters: readonly ClusterShape[];
  readonly places: ReadonlyMap<HostId, HostPlace>;
  readonly tenants: ReadonlyMap<TenantId, TenantRule>;
}

export function indexFleet({ clusters, tenants }: FleetShape): FleetIndex {
  const places = new Map<HostId, HostPlace>();
  for (const cluster of clusters) {
    for (const host of cluster.hosts) places.set(host.id, { host, cluster });
  }
  return { clusters, places, tenants: new Map(tenants.map((rule) => [rule.id, rule])) };
}
