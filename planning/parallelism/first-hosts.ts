/**
 * @file The same split on the hosts that are named first, where others are alike: a search meets arrangements that are equally good in any order, and a reader expects rank 0 on the first host.
 *
 * Clusters that are alike with equal links between all change places as wholes, then hosts of one cluster that are alike, each in the order in which cells need them. The step stays what it
 * is. Cost: O((cells + hosts) × clusters).
 */

import { isEvenlyLinked } from "./cluster-orders.ts";
import type { PlanHost, PlanSite, Unit } from "./site.ts";
import type { Split } from "./split.ts";

export function onFirstHosts(split: Split, site: PlanSite): Split {
  const byClusters = placed(split.cells, site, clustersInPlace(split.cells, site));
  const cells = placed(byClusters, site, hostsInPlace(byClusters, site));
  return cells.every(({ firstRank }, at) => firstRank === split.cells[at]?.firstRank)
    ? split
    : { ...split, cells };
}

/** By host: the one that takes its place. */
type Places = readonly number[];

function placed(cells: readonly Unit[], { hosts }: PlanSite, places: Places): readonly Unit[] {
  const firstRanks: number[] = [];
  let rank = 0;
  for (const { gpuCount } of hosts) {
    firstRanks.push(rank);
    rank += gpuCount;
  }
  return cells.map((unit) => {
    const host = places[unit.host] ?? unit.host;
    const inHost = unit.firstRank - (firstRanks[unit.host] ?? 0);
    return { ...unit, host, firstRank: (firstRanks[host] ?? 0) + inHost };
  });
}

function hostsInPlace(cells: readonly Unit[], { hosts }: PlanSite): Places {
  const kinds = hosts.map((host) => `${host.cluster}/${hostKind(host)}`);
  return inPlace(
    cells.map(({ host }) => host),
    kinds,
  );
}

function clustersInPlace(cells: readonly Unit[], site: PlanSite): Places {
  const { hosts, fabric } = site;
  const same = hosts.map((_, host) => host);
  const names = [...new Set(hosts.map(({ cluster }) => cluster))];
  if (names.length === 1 || !isEvenlyLinked(site, names)) return same;
  const members = names.map((name) => same.filter((host) => hosts[host]?.cluster === name));
  const kinds = names.map((name, at) => {
    const { gbs, latencyMs } = fabric(name);
    const own = members[at]?.flatMap((host) => hosts[host] ?? []) ?? [];
    return [gbs, latencyMs, ...own.map(hostKind)].join("/");
  });
  const wanted = cells.map(({ host }) => names.indexOf(hosts[host]?.cluster ?? ""));
  const clusters = inPlace(wanted, kinds);
  const places = [...same];
  for (const [from, to] of clusters.entries())
    for (const [at, host] of (members[from] ?? []).entries())
      places[host] = members[to]?.[at] ?? host;
  return places;
}

/** Of each kind, what is wanted first takes the first place, and what nobody wants the last ones. */
function inPlace(wanted: readonly number[], kinds: readonly string[]): Places {
  const order = new Set([...wanted, ...kinds.keys()]);
  const free = new Map<string, number[]>();
  for (const [at, kind] of kinds.entries()) {
    const places = free.get(kind);
    if (places === undefined) free.set(kind, [at]);
    else places.push(at);
  }
  const places: number[] = [];
  for (const at of order) places[at] = free.get(kinds[at] ?? "")?.shift() ?? at;
  return places;
}

const hostKind = ({
  gpuType,
  gpuCount,
  memoryGiB,
  teraflops,
  inside,
  nvlinkGpus,
}: PlanHost): string =>
  [gpuType, gpuCount, memoryGiB, teraflops, inside.gbs, inside.latencyMs, nvlinkGpus].join();
