/**
 * @file Restricts a placement policy to sites that can all reach each other, so that no gang lies over a link that is out.
 *
 * The policy is asked freely first; its answer stands unless it lies over two sites with a dead link between them. Then it is asked
 * once for each largest set of sites that all reach each other (the maximal cliques of the graph of live pairs), and the answer with the
 * least cost of spread wins; ties go to the set whose first site comes first in the fleet's order. With one site cut off there are two
 * such sets. Only the first `MAX_SETS` are looked at, which is every set up to a dozen sites with a few cuts each.
 * Cost: nothing while no link is out; else the policy's own for each set.
 */

import { sitePairKey } from "../../domain/fleet/site-link.ts";
import { costOf } from "../placement/spread.ts";
import type { Placed, PlaceHost, PlacePolicy } from "../placement/place-policy.ts";

const MAX_SETS = 32;

/** `dead`: see `deadPairs` of site-links.ts. */
export function withinReach(place: PlacePolicy, dead: ReadonlySet<string>): PlacePolicy {
  if (dead.size === 0) return place;
  return (demand, hosts, ports) => {
    const free = place(demand, hosts, ports);
    if (isConnected(sitesOf(hosts, free), dead)) return free;
    let best: { readonly placed: Placed; readonly cost: number } | undefined;
    let { candidates } = free;
    for (const sites of connectedSets(allSites(hosts), dead)) {
      const among = hosts.filter(({ at }) => sites.has(at.siteName));
      const placed = place(demand, among, ports);
      candidates += placed.candidates;
      if (placed.gpus === undefined) continue;
      const cost = costOf(placed.gpus, ports.spread);
      if (best === undefined || cost < best.cost) best = { placed, cost };
    }
    return { ...best?.placed, candidates };
  };
}

const allSites = (hosts: readonly PlaceHost[]): readonly string[] => {
  const orders = new Map<string, number>();
  for (const { at } of hosts) orders.set(at.siteName, at.site);
  return [...orders].sort(([, a], [, b]) => a - b).map(([site]) => site);
};

function sitesOf(hosts: readonly PlaceHost[], { gpus = [] }: Placed): readonly string[] {
  const taken = new Set(gpus.map(({ host }) => host));
  return [...new Set(hosts.flatMap(({ at }) => (taken.has(at.host) ? [at.siteName] : [])))];
}

function isConnected(sites: readonly string[], dead: ReadonlySet<string>): boolean {
  return sites.every((a, at) => sites.slice(at + 1).every((b) => !dead.has(sitePairKey(a, b))));
}

/** Bron and Kerbosch, without a pivot: there are few sites, and few links are out at once. */
export function connectedSets(
  sites: readonly string[],
  dead: ReadonlySet<string>,
): readonly ReadonlySet<string>[] {
  const found: ReadonlySet<string>[] = [];
  const reaches = (a: string, b: string): boolean => a !== b && !dead.has(sitePairKey(a, b));
  grow([], sites, []);
  return found;

  function grow(chosen: readonly string[], open: readonly string[], done: readonly string[]): void {
    if (found.length >= MAX_SETS) return;
    if (open.length === 0 && done.length === 0) found.push(new Set(chosen));
    const closed = [...done];
    for (const [at, site] of open.entries()) {
      const meets = (other: string): boolean => reaches(site, other);
      grow([...chosen, site], open.slice(at + 1).filter(meets), closed.filter(meets));
      closed.push(site);
    }
  }
}
