/**
 * @file The tables of one gang: the cheapest way to take any number of its GPUs from a host, a rack, a cluster, or several.
 *
 * A table entry is the price of the touched domains, NUMA nodes, hosts, racks, clusters and sites (spread.ts), then the fragmentation: GPUs
 * left over in touched hosts, where a whole free host that is broken counts sixteen, and then those left over in touched racks.
 * Tables are made when they are first needed. In very large racks and clusters only the parts with the most free GPUs count, as many as hold
 * four times the gang. Only the wanted band of a table is made (cover.ts), and made again when more of it is needed.
 * Cost: O(GPUs of the part · gang) a table.
 */

import type { HostGpus } from "../../domain/lease/lease.ts";
import { boundsOf, foldWithin, type Bounds, type RackGroup } from "./cover-target.ts";
import { foldCovers, leastOf, openedCover, type Band, type Cover, type Fold } from "./cover.ts";
import { fewestHolding, freeOf, type ClusterPart, type RackPart, type SitePart } from "./parts.ts";
import { rackTable, type RackTables } from "./rack-tables.ts";
import type { PerLevel } from "./spread.ts";

/** Changes while tables are made. */
export interface GangTables {
  readonly gpus: number;
  /** The cost of each touched part; sums of them are exact. */
  readonly weights: PerLevel;
  /** Of gangs of this size and type. */
  readonly rackTables: RackTables;
  readonly racks: Map<RackPart, Cover>;
  /** Where tables put the GPUs that are taken out of them. */
  readonly chosen: HostGpus[];
  /** Entries that were looked at. */
  cells: number;
}

export const openTables = (
  gpus: number,
  weights: PerLevel,
  rackTables: RackTables,
): GangTables => ({
  gpus,
  weights,
  rackTables,
  racks: new Map(),
  chosen: [],
  cells: 0,
});

/** The whole gang over several clusters, in one or more sites. */
export function sitesCover(parts: readonly SitePart[], tables: GangTables): Cover {
  const { gpus, weights } = tables;
  const total = sumOf(parts, mostOf);
  const sites = parts.map(({ clusters, most }): SiteGroup => {
    const least = leastOf(gpus, total, most);
    const held = sumOf(clusters, mostOf);
    const groups = clusters.map((part) => groupOf(part, leastOf(least, held, part.most), tables));
    return { groups, least, most };
  });
  const bounds = openedBounds(sites, tables);
  const covers = sites.map(({ groups, least, most }) => {
    const inSite = groups.map((group) => inCluster(group, bounds, tables));
    const cover = folded(inSite, { least, most: Math.min(most, gpus) }, tables);
    return openedCover(cover, { cost: weights.site, tieOf: () => 0 });
  });
  return folded(covers, { least: gpus, most: gpus }, tables);
}

/** All of the gang out of one cluster, which has room for it. */
export function clusterCover(part: ClusterPart, tables: GangTables): Cover {
  const { gpus, weights } = tables;
  const group = groupOf(part, gpus, tables);
  const bounds = boundsOf({ groups: [group], target: gpus, opening: weights.rack });
  return inCluster(group, bounds, tables);
}

/** A cluster. */
interface Group extends RackGroup {
  /** GPUs that come out of it at least. */
  readonly least: number;
}

interface SiteGroup {
  readonly groups: readonly Group[];
  readonly least: number;
  readonly most: number;
}

function groupOf(part: ClusterPart, least: number, tables: GangTables): Group {
  const racks = enough(part.racks, Math.min(part.most, tables.gpus), mostOf);
  const total = sumOf(racks, mostOf);
  const covers = racks.map((rack) => rackCover(rack, leastOf(least, total, rack.most), tables));
  return { racks: covers, least, most: part.most };
}

function inCluster({ racks, least, most }: Group, bounds: Bounds, tables: GangTables): Cover {
  const band = { least, most: Math.min(most, tables.gpus) };
  const cover = counted(foldWithin(racks, band, bounds), tables);
  return openedCover(cover, { cost: tables.weights.cluster, tieOf: () => 0 });
}

/** For racks over several clusters: the most that a choice within them may cost more, because it saves opened clusters and sites. */
function openedBounds(sites: readonly SiteGroup[], { gpus, weights }: GangTables): Bounds {
  let open = gpus;
  let openings = 0;
  const inTurn: RackGroup[] = [];
  for (const { groups, most: ofSite } of byMost(sites)) {
    let left = Math.min(ofSite, open);
    openings += left > 0 ? weights.site : 0;
    for (const { racks, most } of byMost(groups)) {
      const taken = Math.min(most, left);
      openings += taken > 0 ? weights.cluster : 0;
      inTurn.push({ racks, most: taken });
      left -= taken;
      open -= taken;
    }
  }
  const fewest = (parts: readonly { readonly most: number }[]): number =>
    fewestHolding(gpus, parts.map(mostOf));
  const clusters = sites.flatMap(({ groups }) => groups);
  const least = weights.site * fewest(sites) + weights.cluster * fewest(clusters);
  const bounds = boundsOf({ groups: inTurn, target: gpus, opening: weights.rack });
  return { ...bounds, most: bounds.most + openings - least };
}

const byMost = <Part extends { readonly most: number }>(parts: readonly Part[]): readonly Part[] =>
  [...parts].sort((a, b) => b.most - a.most);

/** The table of a rack that gives at least `least` GPUs. */
export function rackCover(part: RackPart, least: number, tables: GangTables): Cover {
  const known = tables.racks.get(part);
  if (known !== undefined && known.least <= least) return known;
  const hosts = enough(part.hosts, Math.min(part.most, tables.gpus), freeOf);
  const table = rackTable({ ...part, hosts }, least, tables);
  tables.cells += table.work;
  const take = (gpus: number): void => {
    for (const { at, mask } of table.masksFor(gpus)) {
      const host = hosts[at];
      if (host !== undefined) tables.chosen.push({ host: host.at.host, mask });
    }
  };
  const cover = { ...table.cover, take };
  tables.racks.set(part, cover);
  return cover;
}

const mostOf = ({ most }: { readonly most: number }): number => most;

function sumOf<Part>(parts: readonly Part[], sizeOf: (part: Part) => number): number {
  let sum = 0;
  for (const part of parts) sum += sizeOf(part);
  return sum;
}

const folded = (parts: readonly Cover[], band: Band, tables: GangTables): Cover =>
  counted(foldCovers(parts, band), tables);

function counted({ cover, work }: Fold, tables: GangTables): Cover {
  tables.cells += work;
  return cover;
}

/** Limit of one table; a larger one is cut. */
const MOST_CELLS = 6_000_000;
const ENOUGH = 4;

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
