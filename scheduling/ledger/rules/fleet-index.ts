/**
 * @file Indexes a fleet's shape by id: built once per event or decision.
 *
 * Cost: O(hosts + tenants + maintenance). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type {
  ClusterShape,
  FleetShape,
  HostShape,
  MaintenanceWindow,
  SiteRule,
  TenantRule,
} from "../../../domain/fleet/fleet.ts";
import type { HostId, TenantId } from "../../../domain/values/ids.ts";
import { wattsLimit } from "./limits.ts";

export interface HostPlace {
  readonly host: HostShape;
  readonly cluster: ClusterShape;
  /** Of its site and its rack, where those have any; that of the cluster is the cluster's own. */
  readonly budgets?: readonly WattsBudget[];
  /** Absent where no maintenance is planned. */
  readonly windows?: readonly MaintenanceWindow[];
}

/** What the GPUs of several hosts may draw together. */
export interface WattsBudget {
  /** Unique in the fleet, and what people call it: `site frankfurt`, `rack eu-1 r12`. */
  readonly name: string;
  readonly limitWatts: number;
}

export interface FleetIndex {
  readonly clusters: readonly ClusterShape[];
  readonly places: ReadonlyMap<HostId, HostPlace>;
  readonly tenants: ReadonlyMap<TenantId, TenantRule>;
  /** Of sites and racks, in the fleet's order. */
  readonly budgets: readonly WattsBudget[];
  /** Some cluster, site or rack has a limit on watts. */
  readonly hasWattsLimits: boolean;
  readonly hasWindows: boolean;
  /** Some host states its processors or its memory. */
  readonly hasResources: boolean;
  /** Sums of its watts are exact, in whatever order they are taken. */
  readonly hasWholeWatts: boolean;
}

export function indexFleet({ clusters, tenants, sites = [] }: FleetShape): FleetIndex {
  const places = new Map<HostId, HostPlace>();
  const siteBudgets = new Map(sites.map((site) => [site.id, budgetOf(`site ${site.id}`, site)]));
  const budgets = [...siteBudgets.values()].flatMap((budget) => budget ?? []);
  for (const cluster of clusters) {
    const ofSite = siteBudgets.get(cluster.site);
    const ofRacks = new Map(
      (cluster.racks ?? []).map((rack) => [
        rack.id,
        budgetOf(`rack ${cluster.id} ${rack.id}`, rack),
      ]),
    );
    budgets.push(...[...ofRacks.values()].flatMap((budget) => budget ?? []));
    const windows = windowsOf(cluster);
    for (const host of cluster.hosts) {
      const ofRack = host.rack === undefined ? undefined : ofRacks.get(host.rack);
      const own = [ofSite, ofRack].flatMap((budget) => budget ?? []);
      const planned = windows.get(host.id);
      places.set(host.id, {
        host,
        cluster,
        ...(own.length > 0 && { budgets: own }),
        ...(planned !== undefined && { windows: planned }),
      });
    }
  }
  return {
    clusters,
    places,
    tenants: new Map(tenants.map((rule) => [rule.id, rule])),
    budgets,
    hasWattsLimits:
      budgets.length > 0 || clusters.some((cluster) => Number.isFinite(wattsLimit(cluster))),
    hasWindows: clusters.some(({ maintenance = [] }) => maintenance.length > 0),
    hasResources: clusters.some(({ hosts }) =>
      hosts.some(({ cpus, hostMemoryGiB }) => cpus !== undefined || hostMemoryGiB !== undefined),
    ),
    hasWholeWatts: clusters.every(({ hosts }) =>
      hosts.every(({ gpuWatts }) => Number.isSafeInteger(gpuWatts)),
    ),
  };
}

function budgetOf(name: string, rule: Omit<SiteRule, "id">): WattsBudget | undefined {
  const limitWatts = wattsLimit(rule);
  return Number.isFinite(limitWatts) ? { name, limitWatts } : undefined;
}

function windowsOf({ hosts, maintenance = [] }: ClusterShape): Map<HostId, MaintenanceWindow[]> {
  const windows = new Map<HostId, MaintenanceWindow[]>();
  for (const window of maintenance) {
    for (const id of window.hosts ?? hosts.map((host) => host.id)) {
      const own = windows.get(id);
      if (own === undefined) windows.set(id, [window]);
      else own.push(window);
    }
  }
  return windows;
}
