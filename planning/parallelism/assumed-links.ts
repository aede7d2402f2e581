/**
 * @file Names the links of a site whose rates nobody stated, so that a plan says what it assumed.
 *
 * Only links that a gang on these hosts may use: a fabric where a cluster has several hosts or there are several clusters, every pair of clusters, and
 * the inside of hosts with more than one GPU. Alike ones share an entry.
 */

import type { PlanSite, Way } from "./site.ts";

export function assumedLinks(site: PlanSite): readonly string[] {
  const clusters = [...new Set(site.hosts.map(({ cluster }) => cluster))].sort();
  const found = new Map<string, string[]>();
  const note = (what: string, way: Way, where: string): void => {
    if (way.isAssumed !== true) return;
    const latency = what === "between" ? ` and ${way.latencyMs} ms` : "";
    const key = `${Number(way.gbs.toPrecision(3))} GB/s${latency} ${what}`;
    const places = found.get(key) ?? [];
    if (!places.includes(where)) places.push(where);
    found.set(key, places);
  };
  for (const { id, gpuCount, inside } of site.hosts)
    if (gpuCount > 1) note("between the GPUs of", inside, id);
  for (const cluster of clusters) {
    const hosts = site.hosts.filter((host) => host.cluster === cluster).length;
    if (hosts > 1 || clusters.length > 1)
      note("over the network card of each host of", site.fabric(cluster), cluster);
  }
  for (const [at, from] of clusters.entries())
    for (const to of clusters.slice(at + 1))
      note("between", site.between(from, to), `${from} and ${to}`);
  return [...found].map(([key, places]) => `${key} ${listed(places)}`);
}

const MOST_NAMED = 3;

function listed(places: readonly string[]): string {
  const more = places.length - MOST_NAMED;
  const named = places.slice(0, MOST_NAMED).join(", ");
  return more > 0 ? `${named} and ${more} more` : named;
}
