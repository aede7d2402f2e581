/**
 * @file The units of a site with its clusters in each order worth a try. Which cluster has the first stages counts: those keep most activations, so a cluster whose
 * stages send over slow links, or whose cards are small, is better off late. Clusters that are alike, with equal links to all others, count as one. Cost: O(orders × units).
 */

import type { PlanSite, Unit } from "./site.ts";

/** All of four clusters. */
const MOST_ORDERS = 24;

/** Without that of the site itself; none where more clusters are left than can be tried. */
export function clusterOrders(
  site: PlanSite,
  units: readonly Unit[],
): readonly (readonly Unit[])[] {
  const byCluster = new Map<string, Unit[]>();
  for (const unit of units) {
    const cluster = site.hosts[unit.host]?.cluster ?? "";
    const held = byCluster.get(cluster);
    if (held === undefined) byCluster.set(cluster, [unit]);
    else held.push(unit);
  }
  const clusters = [...byCluster.values()];
  if (clusters.length < 2) return [];
  const kinds = isEvenlyLinked(site, [...byCluster.keys()])
    ? clusters.map((own) => kindOf(site, own))
    : clusters.map((_, at) => String(at));
  const orders = distinctOrders(kinds, MOST_ORDERS + 1);
  if (orders.length > MOST_ORDERS) return [];
  return orders.slice(1).map((order) => order.flatMap((at) => clusters[at] ?? []));
}

/** Of all hosts' kinds (cluster, GPU type and size) where these are few; else of clusters alone. */
export function kindOrders(site: PlanSite, units: readonly Unit[]): readonly (readonly Unit[])[] {
  const byKind = new Map<string, Unit[]>();
  for (const unit of units) {
    const { cluster, gpuType, gpuCount } = site.hosts[unit.host] ?? NOBODY;
    const key = `${cluster}/${gpuType}/${gpuCount}`;
    const held = byKind.get(key);
    if (held === undefined) byKind.set(key, [unit]);
    else held.push(unit);
  }
  const kinds = [...byKind.values()];
  const orders = clusterOrders(site, units);
  if (kinds.length > MOST_KINDS) return orders;
  const names = kinds.map((_, at) => String(at));
  const sorted = distinctOrders(names, MOST_ORDERS).map((order) =>
    order.flatMap((at) => kinds[at] ?? []),
  );
  return [...orders, ...sorted];
}

const MOST_KINDS = 3;
const NOBODY = { cluster: "", gpuType: "", gpuCount: 0 };

/** Whether all pairs of clusters have the same way between them, in both directions. */
export function isEvenlyLinked({ between }: PlanSite, clusters: readonly string[]): boolean {
  const ways = clusters.flatMap((a) => clusters.filter((b) => b !== a).map((b) => between(a, b)));
  return ways.every(
    ({ gbs, latencyMs }) => gbs === ways[0]?.gbs && latencyMs === ways[0].latencyMs,
  );
}

function kindOf(site: PlanSite, units: readonly Unit[]): string {
  const [first] = units;
  const fabric = site.fabric(site.hosts[first?.host ?? -1]?.cluster ?? "");
  const hosts = units.map(({ host: at }) => {
    const host = site.hosts[at];
    const { gbs, latencyMs } = host?.inside ?? fabric;
    // Units of a host follow one another.
    const place = at - (first?.host ?? 0);
    return [place, host?.gpuType, host?.memoryGiB, host?.teraflops, gbs, latencyMs].join();
  });
  return [fabric.gbs, fabric.latencyMs, ...hosts].join("/");
}

/** Orders of places in which the kinds differ, the given one first; at most so many. */
function distinctOrders(kinds: readonly string[], most: number): readonly (readonly number[])[] {
  const found: (readonly number[])[] = [];
  const extend = (order: readonly number[]): void => {
    if (found.length >= most) return;
    if (order.length === kinds.length) found.push(order);
    const tried = new Set<string>();
    for (const [at, kind] of kinds.entries()) {
      if (order.includes(at) || tried.has(kind)) continue;
      tried.add(kind);
      extend([...order, at]);
    }
  };
  extend([]);
  return found;
}
