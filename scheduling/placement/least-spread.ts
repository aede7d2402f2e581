/**
 * @file Chooses the GPUs with the lowest communication cost (spread.ts), exactly, and among equals those that leave the most room for others.
 *
 * The cost of a gang is a sum over the NVLink domains, NUMA nodes, hosts, racks, clusters and sites that it touches, and these form a tree.
 * So the best way to take k GPUs from a rack follows from the best ways to take fewer from its hosts, and so on up to the fleet: dynamic
 * programming (cover.ts), no search. It goes from small to large and stops as soon as nothing larger can be cheaper: one host; one rack;
 * one cluster, by lower bound; then several clusters (cluster-sets.ts). Where the links between clusters are known, one cluster goes before
 * several, and several are chosen by their number and their links (linked-set.ts).
 * Ties: fewest GPUs left over in touched hosts, where a whole free host that is broken counts sixteen; then fewest left over in touched
 * racks, so that small gangs fill broken hosts and racks first; then the fleet's order of clusters and host ids. Of several GPU types the
 * cheapest, then the first in that order.
 * Not exact in two cases. Where hosts of one type draw differently and watts are scarce, the tables may miss a way; then thriftiest.ts
 * answers. In very large clusters only the parts with the most free GPUs count (gang-tables.ts).
 * Cost: O(hosts) when one host holds the gang; else O(free GPUs · gang).
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import { clusterSets } from "./cluster-sets.ts";
import { exactCost, type Cover } from "./cover.ts";
import { clusterCover, openTables, rackCover, sitesCover, type GangTables } from "./gang-tables.ts";
import { sharesOf } from "./host-kind.ts";
import {
  fewestHolding,
  freeOf,
  gpusWithinAll,
  partsOf,
  type ClusterPart,
  type SitePart,
} from "./parts.ts";
import { linkedSet } from "./linked-set.ts";
import type { LinkPorts, PlaceDemand, PlaceHost, PlacePolicy } from "./place-policy.ts";
import { hostTie, rackTablesFor, rackTie } from "./rack-tables.ts";
import { remembered } from "./remembered.ts";
import { partWeights, type FleetSpread, type PerLevel } from "./spread.ts";
import { thriftiest } from "./thriftiest.ts";

export const leastSpread: PlacePolicy = remembered((demand, hosts, { spread, links }) => {
  const types = byType(hosts, demand);
  let best: Answer | undefined;
  let cells = 0;
  for (const alike of types) {
    const gpuType = alike[0]?.at.gpuType ?? "";
    const tables = openTables(
      demand.gpus,
      exactWeights(gpuType, demand, spread),
      rackTablesFor(spread, gpuType, demand.gpus),
    );
    best = better(best, bestOfType({ demand, hosts: alike, tables, ...(links && { links }) }));
    cells += tables.cells;
  }
  const candidates = hosts.length + Math.ceil(cells / CELLS_OF_HOST);
  if (best !== undefined) return { gpus: best.gpusOf(), candidates };
  if (demand.wattsLeft === undefined || types.every(drawsAlike)) return { candidates };
  const thrifty = thriftiest(demand, hosts, { spread });
  return { ...thrifty, candidates: candidates + thrifty.candidates };
});

const drawsAlike = (hosts: readonly PlaceHost[]): boolean =>
  hosts.every(({ at }) => at.gpuWatts === hosts[0]?.at.gpuWatts);

/** Number of table cells that take as long as examining a host. */
const CELLS_OF_HOST = 32;

interface Answer {
  readonly cost: number;
  readonly tie: number;
  readonly gpusOf: () => readonly HostGpus[];
}

/** The first of equals. */
function better(a: Answer | undefined, b: Answer | undefined): Answer | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return b.cost < a.cost || (b.cost === a.cost && b.tie < a.tie) ? b : a;
}

const isAtMost = (answer: Answer | undefined, cost: number): boolean =>
  answer !== undefined && answer.cost <= cost;

/** Hosts with GPUs to give, by GPU type, each in order. */
function byType(
  hosts: readonly PlaceHost[],
  { isSameFabric }: PlaceDemand,
): readonly (readonly PlaceHost[])[] {
  const types = new Map<string, PlaceHost[]>();
  let last = -1;
  let isSorted = true;
  for (const host of hosts) {
    const { at, freeMask } = host;
    if (freeMask === 0 || (isSameFabric && !at.hasFabric)) continue;
    isSorted &&= at.order > last;
    last = at.order;
    const alike = types.get(at.gpuType);
    if (alike === undefined) types.set(at.gpuType, [host]);
    else alike.push(host);
  }
  const all = [...types.values()];
  if (isSorted) return all;
  const orderOf = (host: PlaceHost | undefined): number => host?.at.order ?? 0;
  return all
    .map((alike) => alike.sort((a, b) => a.at.order - b.at.order))
    .sort((a, b) => orderOf(a[0]) - orderOf(b[0]));
}

function exactWeights(gpuType: string, { gpus }: PlaceDemand, spread: FleetSpread): PerLevel {
  const weights = partWeights(spread, gpuType, gpus);
  return {
    domain: exactCost(weights.domain),
    numa: exactCost(weights.numa),
    host: exactCost(weights.host),
    rack: exactCost(weights.rack),
    cluster: exactCost(weights.cluster),
    site: exactCost(weights.site),
  };
}

/** The search for the best gang of one GPU type. */
interface Hunt {
  readonly demand: PlaceDemand;
  readonly hosts: readonly PlaceHost[];
  readonly tables: GangTables;
  readonly links?: LinkPorts;
}

function bestOfType(hunt: Hunt): Answer | undefined {
  const { demand, hosts, tables } = hunt;
  const onHost = bestHost(hunt);
  const floor = floorOf(hosts, tables);
  const { rack, cluster, site } = tables.weights;
  if (demand.isSameHost || isAtMost(onHost, floor + rack + cluster + site)) return onHost;
  if (floor === Infinity) return undefined;

  const parts = partsOf(hosts, demand);
  let best = better(onHost, bestRack(parts, tables));
  if (isAtMost(best, floor + 2 * rack + cluster + site)) return best;

  best = bestCluster(parts, hunt, best);
  const maxClusters = demand.isSameFabric ? 1 : demand.maxClusters;
  if (maxClusters <= 1) return best;
  if (hunt.links !== undefined) {
    const overLinks = best ?? bestOverLinks(parts, hunt, hunt.links);
    if (overLinks !== undefined) return overLinks;
  }
  for (const set of clusterSets(parts, { gpus: demand.gpus, maxClusters })) {
    const { clusters, sites } = set;
    if (isAtMost(best, floor + clusters * (rack + cluster) + sites * site)) continue;
    best = better(best, overClusters(set.parts, tables));
  }
  return best;
}

/** What domains, NUMA nodes and hosts cost at least, where more than one host is needed; infinite where there are too few GPUs. */
function floorOf(hosts: readonly PlaceHost[], { gpus, weights }: GangTables): number {
  const counts: number[] = [];
  for (const host of hosts) {
    const free = freeOf(host);
    counts[free] = (counts[free] ?? 0) + 1;
  }
  let open = gpus;
  let least = 0;
  for (let free = counts.length - 1; free > 0 && open > 0; free -= 1) {
    const needed = Math.min(counts[free] ?? 0, Math.ceil(open / free));
    least += needed;
    open -= needed * free;
  }
  if (open > 0) return Infinity;
  return Math.max(2, least) * (weights.domain + weights.numa + weights.host);
}

function bestHost({ hosts, demand, tables: { weights } }: Hunt): Answer | undefined {
  const { gpus, wattsLeft } = demand;
  const freeByRack: number[] = [];
  for (const host of hosts) {
    const { rack } = host.at;
    freeByRack[rack] = (freeByRack[rack] ?? 0) + freeOf(host);
  }
  let winner: PlaceHost | undefined;
  let least = Infinity;
  let leastTie = Infinity;
  for (const host of hosts) {
    const { at, freeMask } = host;
    const { free, domains, numaNodes } = sharesOf(at.kind, freeMask);
    if (free < gpus) continue;
    const cost = (domains[gpus] ?? 0) * weights.domain + (numaNodes[gpus] ?? 0) * weights.numa;
    if (cost > least) continue;
    const tie = hostTie(at.gpuCount, free, gpus) + rackTie(freeByRack[at.rack] ?? 0, gpus);
    if (cost === least && tie >= leastTie) continue;
    if (gpusWithinAll(at, wattsLeft) < gpus) continue;
    winner = host;
    least = cost;
    leastTie = tie;
  }
  if (winner === undefined) return undefined;
  const { at, freeMask } = winner;
  const mask = sharesOf(at.kind, freeMask).masks[gpus] ?? 0;
  const { host, rack, cluster, site } = weights;
  return {
    cost: least + host + rack + cluster + site,
    tie: leastTie,
    gpusOf: () => [{ host: at.host, mask }],
  };
}

function bestRack(parts: readonly SitePart[], tables: GangTables): Answer | undefined {
  const { gpus } = tables;
  const { cluster, site } = tables.weights;
  let best: Answer | undefined;
  for (const { clusters, most: ofSite } of parts) {
    for (const { racks, most: ofCluster } of clusters) {
      for (const rack of racks) {
        if (Math.min(rack.most, ofCluster, ofSite) < gpus) continue;
        const found = answerOf(rackCover(rack, gpus, tables), tables);
        best = better(best, { ...found, cost: found.cost + cluster + site });
      }
    }
  }
  return best;
}

/** Clusters in order of their lower bound; those that cannot be cheaper than the best so far are left out. */
function bestCluster(
  parts: readonly SitePart[],
  { tables }: Hunt,
  bestSoFar: Answer | undefined,
): Answer | undefined {
  const { gpus } = tables;
  const { rack, cluster, site } = tables.weights;
  const able = parts.flatMap(({ clusters, most }) =>
    clusters
      .filter((each) => Math.min(each.most, most) >= gpus)
      .map((each) => {
        const hosts = each.racks.flatMap((part) => part.hosts);
        const floor = floorOf(hosts, tables) + leastRacks(each, gpus) * rack + cluster + site;
        return { each, floor };
      }),
  );
  let best = bestSoFar;
  for (const { each, floor } of able.sort((a, b) => a.floor - b.floor)) {
    if (best !== undefined && best.cost < floor) break;
    const found = answerOf(clusterCover(each, tables), tables);
    best = better(best, { ...found, cost: found.cost + site });
  }
  return best;
}

const leastRacks = ({ racks }: ClusterPart, gpus: number): number =>
  fewestHolding(
    gpus,
    racks.map(({ most }) => most),
  );

/** Where links are known, fewer clusters come first, then the widest path between them. */
function bestOverLinks(
  parts: readonly SitePart[],
  { demand: { gpus, maxClusters, prefer }, tables }: Hunt,
  links: LinkPorts,
): Answer | undefined {
  const set = linkedSet(parts, { gpus, maxClusters, prefer }, links);
  if (set === undefined) return undefined;
  tables.cells += set.work;
  return overClusters(set.parts, tables);
}

function overClusters(parts: readonly SitePart[], tables: GangTables): Answer | undefined {
  const cover = sitesCover(parts, tables);
  return cover.size < tables.gpus ? undefined : answerOf(cover, tables);
}

/** The whole gang out of this part. */
function answerOf({ cost, tie, take }: Cover, { gpus, chosen }: GangTables): Answer {
  return {
    cost: cost[gpus] ?? Infinity,
    tie: tie[gpus] ?? Infinity,
    gpusOf: () => {
      take(gpus);
      return chosen.sort((a, b) => byCodeUnit(a.host, b.host));
    },
  };
}
