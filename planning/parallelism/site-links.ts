/**
 * @file The links of a site that several flows share: the network card of each host, the bus of a host without NVLink, and the link between every
 * two clusters. Each carries its rate in each direction.
 *
 * A byte between two hosts leaves through the card of the one and enters through the card of the other; between clusters it crosses their link
 * as well. With NVLink every GPU has a port of its own, so nothing is shared there; without it all pairs of a host share its bus. Links are
 * numbers: cards out, cards in, buses, then links between clusters by origin and destination. Memory: O(hosts + clusters²).
 */

import type { PlanSite } from "./site.ts";

export interface SiteLinks {
  readonly count: number;
  /** GB/s. */
  readonly gbs: Float64Array;
  readonly latencyMs: Float64Array;
  /** Number of each host's cluster, in the order in which clusters first appear. */
  readonly clusterOf: Int32Array;
  readonly clusters: readonly string[];
  /** Of each host: 1 where pairs of its GPUs share a bus. */
  readonly hasBus: Uint8Array;
}

/** Sites are values: what was found of one stays true. */
const known = new WeakMap<PlanSite, SiteLinks>();

export function linksOf(site: PlanSite): SiteLinks {
  const held = known.get(site);
  if (held !== undefined) return held;
  const found = read(site);
  known.set(site, found);
  return found;
}

function read(site: PlanSite): SiteLinks {
  const { hosts } = site;
  const clusters = [...new Set(hosts.map(({ cluster }) => cluster))];
  const numbers = new Map(clusters.map((cluster, number) => [cluster, number]));
  const count = 3 * hosts.length + clusters.length ** 2;
  const gbs = new Float64Array(count);
  const latencyMs = new Float64Array(count);
  const set = (link: number, way: { readonly gbs: number; readonly latencyMs: number }): void => {
    gbs[link] = way.gbs;
    latencyMs[link] = way.latencyMs;
  };
  for (const [at, host] of hosts.entries()) {
    const fabric = site.fabric(host.cluster);
    set(at, fabric);
    set(hosts.length + at, fabric);
    set(2 * hosts.length + at, host.inside);
  }
  for (const [a, from] of clusters.entries())
    for (const [b, to] of clusters.entries())
      if (a !== b) set(3 * hosts.length + a * clusters.length + b, site.between(from, to));
  return {
    count,
    gbs,
    latencyMs,
    clusters,
    clusterOf: Int32Array.from(hosts, ({ cluster }) => numbers.get(cluster) ?? 0),
    hasBus: Uint8Array.from(hosts, ({ nvlinkGpus }) => Number(nvlinkGpus === 1)),
  };
}

/** Calls back with each shared link on the way from a GPU of one host to a GPU of another, or of the same one. */
export function eachLink(
  { clusterOf, clusters, hasBus }: SiteLinks,
  [from, to]: readonly [from: number, to: number],
  visit: (link: number) => void,
): void {
  const hosts = clusterOf.length;
  if (from === to) {
    if (hasBus[from] === 1) visit(2 * hosts + from);
    return;
  }
  visit(from);
  visit(hosts + to);
  const [a = 0, b = 0] = [clusterOf[from], clusterOf[to]];
  if (a !== b) visit(3 * hosts + a * clusters.length + b);
}
