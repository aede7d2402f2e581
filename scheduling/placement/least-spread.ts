/**
 * @file Chooses the GPUs whose communication costs least (spread.ts), exactly, and among equals those that leave most room for others.
 *
 * The cost of a gang is a sum over the NVLink domains, NUMA nodes, hosts, racks, clusters and sites that it touches, and these form
 * a tree. So the best way to take k GPUs out of a rack follows from the best ways to take fewer out of its hosts, and so on up
 * to the fleet: dynamic programming (cover.ts), no search. It goes from small to large and stops as soon as nothing larger can
 * be cheaper: one host; one rack; one cluster, by lower bound; then several clusters (cluster-sets.ts).
 * Ties: fewest GPUs left over in touched hosts, where a whole free host that is broken counts sixteen; then fewest left over in touched
 * racks, so that small gangs fill what is broken already and whole hosts and racks stay whole; then the fleet's order of clusters and
 * host ids. Of several GPU types the cheapest, then the first in that order.
 * Not exact in two cases. Where hosts of one type draw differently and watts are scarce, the tables may miss a way; then thriftiest.ts
 * answers. In very large clusters only the parts with most free GPUs are looked at (`MOST_CELLS`).
 * Cost: O(hosts) when one host holds the gang; O(free GPUs · gang) else.
 */

import { byCodeUnit } from "../../domain/ids.ts";
import type { HostGpus } from "../../domain/lease.ts";
import { clusterSets } from "./cluster-sets.ts";
import { exactCost, foldCovers, openedCover, type Cover } from "./cover.ts";
import { sharesOf } from "./host-kind.ts";
import {
  freeOf,
  gpusWithinAll,
  partsOf,
  type ClusterPart,
  type RackPart,
  type SitePart,
} from "./parts.ts";
import type { PlaceDemand, PlaceHost, PlacePolicy } from "./place-policy.ts";
import { partWeights, type FleetSpread, type PerLevel } from "./spread.ts";
import { thriftiest } from "./thriftiest.ts";

export const leastSpread: PlacePolicy = (demand, hosts, { spread }) => {
  const work: Work = { hosts: hosts.length, cells: 0 };
  const types = byType(hosts, demand);
  let best: Answer | undefined;
  for (const alike of types) {
    const weights = exactWeights(alike, demand, spread);
    best = better(best, bestOfType({ demand, hosts: alike, weights, work, chosen: [] }));
  }
  const candidates = work.hosts + Math.ceil(work.cells / CELLS_OF_HOST);
  if (best !== undefined) return { gpus: best.gpusOf(), candidates };
  if (demand.wattsLeft === undefined || types.every(drawsAlike)) return { candidates };
  const thrifty = thriftiest(demand, hosts, { spread });
  return { ...thrifty, candidates: candidates + thrifty.candidates };
};

const drawsAlike = (hosts: readonly PlaceHost[]): boolean =>
  hosts.every(({ at }) => at.gpuWatts === hosts[0]?.at.gpuWatts);

interface Work {
  hosts: number;
  cells: number;
}

/** So many cells of a table take as long as a look at a host. */
const CELLS_OF_HOST = 32;

/** Of one table; what would need more is cut to the parts with most free GPUs that hold four times the gang. */
const MOST_CELLS = 6_000_000;
const ENOUGH = 4;

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

/** Hosts that have something to give, by GPU type, each in order. */
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

function exactWeights(
  [first]: readonly PlaceHost[],
  { gpus }: PlaceDemand,
  spread: FleetSpread,
): PerLevel {
  const weights = partWeights(spread, first?.at.gpuType ?? "", gpus);
  return {
    domain: exactCost(weights.domain),
    numa: exactCost(weights.numa),
    host: exactCost(weights.host),
    rack: exactCost(weights.rack),
    cluster: exactCost(weights.cluster),
    site: exactCost(weights.site),
  };
}

/** The hunt for the best gang of one GPU type. */
interface Hunt {
  readonly demand: PlaceDemand;
  readonly hosts: readonly PlaceHost[];
  readonly weights: PerLevel;
  readonly work: Work;
  /** Where covers put what they take. */
  readonly chosen: HostGpus[];
}

function bestOfType(hunt: Hunt): Answer | undefined {
  const { demand, hosts, weights } = hunt;
  const onHost = bestHost(hunt);
  const floor = floorOf(hosts, hunt);
  const { rack, cluster, site } = weights;
  if (demand.isSameHost || isAtMost(onHost, floor + rack + cluster + site)) return onHost;
  if (floor === Infinity) return undefined;

  const parts = partsOf(hosts, demand);
  const tables: Tables = { racks: new Map(), clusters: new Map() };
  let best = better(onHost, bestRack(parts, tables, hunt));
  if (isAtMost(best, floor + 2 * rack + cluster + site)) return best;

  best = bestCluster(parts, tables, { ...hunt, best });
  const maxClusters = demand.isSameFabric ? 1 : demand.maxClusters;
  if (maxClusters <= 1) return best;
  for (const set of clusterSets(parts, { gpus: demand.gpus, maxClusters })) {
    const { clusters, sites } = set;
    if (isAtMost(best, floor + clusters * (rack + cluster) + sites * site)) continue;
    best = better(best, overClusters(set.parts, tables, hunt));
  }
  return best;
}

/** What domains, NUMA nodes and hosts cost at least, where more than one host is needed; infinite where there are too few GPUs. */
function floorOf(hosts: readonly PlaceHost[], { demand, weights }: Hunt): number {
  const counts: number[] = [];
  for (const host of hosts) {
    const free = freeOf(host);
    counts[free] = (counts[free] ?? 0) + 1;
  }
  let open = demand.gpus;
  let least = 0;
  for (let free = counts.length - 1; free > 0 && open > 0; free -= 1) {
    const needed = Math.min(counts[free] ?? 0, Math.ceil(open / free));
    least += needed;
    open -= needed * free;
  }
  if (open > 0) return Infinity;
  return Math.max(2, least) * (weights.domain + weights.numa + weights.host);
}

const GPUS_TIE = 256;
const WHOLE_HOST_TIE = 16 * GPUS_TIE;

/** For GPUs left over in a touched host. */
function hostTie({ at }: PlaceHost, free: number, gpus: number): number {
  const isBroken = free === at.gpuCount && gpus < free;
  return (free - gpus) * GPUS_TIE + (isBroken ? WHOLE_HOST_TIE : 0);
}

/** For GPUs left over in a touched rack. */
const rackTie = (free: number, gpus: number): number => Math.min(GPUS_TIE - 1, free - gpus);

function bestHost({ hosts, weights, demand }: Hunt): Answer | undefined {
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
    const tie = hostTie(host, free, gpus) + rackTie(freeByRack[at.rack] ?? 0, gpus);
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

/** What was worked out of racks and clusters. */
interface Tables {
  readonly racks: Map<RackPart, Cover>;
  readonly clusters: Map<ClusterPart, Cover>;
}

function bestRack(parts: readonly SitePart[], tables: Tables, hunt: Hunt): Answer | undefined {
  const { gpus } = hunt.demand;
  const { cluster, site } = hunt.weights;
  let best: Answer | undefined;
  for (const { clusters, most: ofSite } of parts) {
    for (const { racks, most: ofCluster } of clusters) {
      for (const rack of racks) {
        if (Math.min(rack.most, ofCluster, ofSite) < gpus) continue;
        const found = answerOf(rackCover(rack, tables, hunt), hunt);
        best = better(best, { ...found, cost: found.cost + cluster + site });
      }
    }
  }
  return best;
}

/** Clusters in order of what they cost at least; those that cannot be cheaper are left out. */
function bestCluster(
  parts: readonly SitePart[],
  tables: Tables,
  hunt: Hunt & { readonly best: Answer | undefined },
): Answer | undefined {
  const { gpus } = hunt.demand;
  const { rack, cluster, site } = hunt.weights;
  const able = parts.flatMap(({ clusters, most }) =>
    clusters
      .filter((each) => Math.min(each.most, most) >= gpus)
      .map((each) => {
        const hosts = each.racks.flatMap((part) => part.hosts);
        const floor = floorOf(hosts, hunt) + leastRacks(each, gpus) * rack + cluster + site;
        return { each, floor };
      }),
  );
  let { best } = hunt;
  for (const { each, floor } of able.sort((a, b) => a.floor - b.floor)) {
    if (best !== undefined && best.cost < floor) break;
    const found = answerOf(clusterCover(each, tables, hunt), hunt);
    best = better(best, { ...found, cost: found.cost + site });
  }
  return best;
}

function leastRacks({ racks }: ClusterPart, gpus: number): number {
  let open = gpus;
  let count = 0;
  for (const most of racks.map((rack) => rack.most).sort((a, b) => b - a)) {
    if (open <= 0) break;
    open -= most;
    count += 1;
  }
  return count;
}

function overClusters(parts: readonly SitePart[], tables: Tables, hunt: Hunt): Answer | undefined {
  const { gpus } = hunt.demand;
  const sites = parts.map(({ clusters, most }) => {
    const covers = clusters.map((cluster) => clusterCover(cluster, tables, hunt));
    const { cover, work } = foldCovers(covers, Math.min(most, gpus));
    hunt.work.cells += work;
    return openedCover(cover, { cost: hunt.weights.site, tieOf: () => 0 });
  });
  const { cover, work } = foldCovers(sites, gpus);
  hunt.work.cells += work;
  return cover.size < gpus ? undefined : answerOf(cover, hunt);
}

function clusterCover(part: ClusterPart, tables: Tables, hunt: Hunt): Cover {
  const known = tables.clusters.get(part);
  if (known !== undefined) return known;
  const most = Math.min(part.most, hunt.demand.gpus);
  const racks = enough(part.racks, most, ({ most: ofRack }) => ofRack);
  const { cover, work } = foldCovers(
    racks.map((rack) => rackCover(rack, tables, hunt)),
    most,
  );
  hunt.work.cells += work;
  const opened = openedCover(cover, { cost: hunt.weights.cluster, tieOf: () => 0 });
  tables.clusters.set(part, opened);
  return opened;
}

function rackCover(part: RackPart, tables: Tables, hunt: Hunt): Cover {
  const known = tables.racks.get(part);
  if (known !== undefined) return known;
  const most = Math.min(part.most, hunt.demand.gpus);
  const hosts = enough(part.hosts, most, freeOf);
  const { cover, work } = foldCovers(
    hosts.map((host) => hostCover(host, hunt)),
    most,
  );
  hunt.work.cells += work;
  const opened = openedCover(cover, {
    cost: hunt.weights.rack,
    tieOf: (gpus) => rackTie(part.free, gpus),
  });
  tables.racks.set(part, opened);
  return opened;
}

function hostCover(host: PlaceHost, { weights, chosen }: Hunt): Cover {
  const { at, freeMask } = host;
  const { free, masks, domains, numaNodes } = sharesOf(at.kind, freeMask);
  const cost = new Float64Array(free + 1);
  const tie = new Float64Array(free + 1);
  for (let gpus = 1; gpus <= free; gpus += 1) {
    const parts = (domains[gpus] ?? 0) * weights.domain + (numaNodes[gpus] ?? 0) * weights.numa;
    cost[gpus] = parts + weights.host;
    tie[gpus] = hostTie(host, free, gpus);
  }
  const take = (gpus: number): void => {
    chosen.push({ host: at.host, mask: masks[gpus] ?? 0 });
  };
  return { size: free, cost, tie, take };
}

/** All parts where the table stays small; else those with most GPUs. In their order. */
function enough<Part>(
  parts: readonly Part[],
  most: number,
  sizeOf: (part: Part) => number,
): readonly Part[] {
  const cells = parts.reduce((sum, part) => sum + Math.min(most, sizeOf(part)) * most, 0);
  if (cells <= MOST_CELLS) return parts;
  const largest = parts
    .map((part, at) => ({ part, at, size: sizeOf(part) }))
    .sort((a, b) => b.size - a.size || a.at - b.at);
  let held = 0;
  return largest
    .filter(({ size }) => {
      const isOpen = held < ENOUGH * most;
      held += size;
      return isOpen;
    })
    .sort((a, b) => a.at - b.at)
    .map(({ part }) => part);
}

/** The whole gang out of this part. */
function answerOf({ cost, tie, take }: Cover, { demand: { gpus }, chosen }: Hunt): Answer {
  return {
    cost: cost[gpus] ?? Infinity,
    tie: tie[gpus] ?? Infinity,
    gpusOf: () => {
      take(gpus);
      return chosen.sort((a, b) => byCodeUnit(a.host, b.host));
    },
  };
}
