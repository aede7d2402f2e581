/**
 * @file The cost of a gang's spread: its communication, and from it the gang's throughput as a part of its peak.
 *
 * The paper has three figures for 8 GPUs: 0.94 of peak in one NVLink domain, 0.62 in two, 0.34 over two racks. Read as time per unit of
 * work, 1/throughput = 1 + communication, they are sums of steps: one for leaving the domain, one more for leaving the rack. Larger gangs
 * are compared with the best spread that their size allows. With c(l) = number of domains, NUMA nodes, hosts, racks, clusters, sites
 * that the gang touches, and least(l) = the fewest that could hold as many GPUs of its type if all were free,
 *
 *     cost = base + Σ over levels l of step(l) · (c(l) − least(l)) / least(l)          throughput = 1 / (1 + cost)
 *
 * so a gang of any size at its best spread has 0.94; one in twice as many domains as needed 0.62; one in twice the domains and twice the
 * racks 0.34; and one host more than the eight that 64 GPUs need costs an eighth of a step. A single GPU does not communicate: cost 0. A
 * domain counts as large enough for 8 GPUs even where a fleet's are smaller: 8 GPUs on two boards of four have 0.62 everywhere. Where the
 * paper is silent, the choice is ours: sites continue with the ratio of rack to domain, a cluster (another fabric) is half of that step; a
 * second host, or a second NUMA node, within the paper's figures costs little, so it decides between equals and keeps the figures true to
 * the second digit. The placement minimises this cost and the simulator charges this throughput, so the two cannot disagree.
 * Cost: O(hosts of the gang) a call; `openSpread` O(hosts · log hosts), once a fleet.
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { HostKind } from "./host-kind.ts";
import { layOut, type FleetLayout, type HostLayout } from "./layout.ts";

export const LEVELS = ["domain", "numa", "host", "rack", "cluster", "site"] as const;
export type Level = (typeof LEVELS)[number];

/** Number of touched parts by level, or the weight of each part. */
export type PerLevel = Readonly<Record<Level, number>>;

/** Throughput of 8 GPUs as a part of peak, by the paper. */
export const PAPER = { oneDomain: 0.94, twoDomains: 0.62, twoRacks: 0.34 } as const;
const PAPER_GPUS = 8;

const BASE = 1 / PAPER.oneDomain - 1;
const BEYOND_DOMAIN = 1 / PAPER.twoDomains - 1 / PAPER.oneDomain;
const BEYOND_RACK = 1 / PAPER.twoRacks - 1 / PAPER.twoDomains;
const BEYOND_SITE = BEYOND_RACK ** 2 / BEYOND_DOMAIN;
const HOST = 0.01;
const NUMA = 0.002;

const STEPS: PerLevel = {
  domain: BEYOND_DOMAIN - HOST - NUMA,
  numa: NUMA,
  host: HOST,
  rack: BEYOND_RACK,
  cluster: BEYOND_SITE / 2,
  site: BEYOND_SITE / 2,
};

/** The facts about a fleet that the cost needs. */
export interface FleetSpread {
  readonly layout: FleetLayout;
  /** By GPU type and level: GPUs in the largest part, the two largest, and so on. */
  readonly largest: ReadonlyMap<string, Readonly<Record<Level, readonly number[]>>>;
}

export function openSpread(shape: Pick<FleetShape, "clusters">): FleetSpread {
  const layout = layOut(shape);
  const byType = new Map<string, HostLayout[]>();
  for (const host of layout.values()) {
    const alike = byType.get(host.gpuType);
    if (alike === undefined) byType.set(host.gpuType, [host]);
    else alike.push(host);
  }
  return { layout, largest: new Map([...byType].map(([type, hosts]) => [type, sizesOf(hosts)])) };
}

/**
 * The part of its peak that a gang reaches on these GPUs, 0 to 1. Hosts that the fleet does not have count for nothing.
 *
 *     const spread = openSpread(fleet.shape);                 // once a fleet
 *     const throughput = throughputOf(lease.gpus, spread);    // 0.94 for 8 GPUs in one NVLink domain
 *
 * Work that takes `w` GPU-seconds at peak takes `w / throughput`; the base loss of 0.94 is in every gang of two or more.
 */
export const throughputOf = (gpus: readonly HostGpus[], spread: FleetSpread): number =>
  1 / (1 + costOf(gpus, spread));

/** The communication cost of a gang on these GPUs, ≥ 0; less is better, and only less means more throughput. */
export function costOf(gpus: readonly HostGpus[], spread: FleetSpread): number {
  const racks = new Set<number>();
  const clusters = new Set<number>();
  const sites = new Set<number>();
  let count = 0;
  let hosts = 0;
  let domains = 0;
  let numa = 0;
  let gpuType: string | undefined;
  for (const { host, mask } of gpus) {
    const at = spread.layout.get(host);
    if (at === undefined || mask === 0) continue;
    gpuType ??= at.gpuType;
    count += popCount(mask);
    hosts += 1;
    for (const domain of at.kind.domains) if ((domain & mask) !== 0) domains += 1;
    for (const node of at.kind.numaNodes) if ((node & mask) !== 0) numa += 1;
    racks.add(at.rack);
    clusters.add(at.cluster);
    sites.add(at.site);
  }
  if (gpuType === undefined || count <= 1) return 0;
  return costOfParts(spread, gpuType, {
    gpus: count,
    parts: {
      domain: domains,
      numa,
      host: hosts,
      rack: racks.size,
      cluster: clusters.size,
      site: sites.size,
    },
  });
}

export interface Touched {
  readonly gpus: number;
  readonly parts: PerLevel;
}

/** The same where the parts are counted already. */
export function costOfParts(
  spread: FleetSpread,
  gpuType: string,
  { gpus, parts }: Touched,
): number {
  if (gpus <= 1) return 0;
  let cost = BASE;
  for (const level of LEVELS) {
    const least = leastParts(spread, { gpuType, gpus, level });
    cost += (STEPS[level] * (parts[level] - least)) / least;
  }
  return cost;
}

/** The throughput of a gang whose hosts are not chosen yet: at its best inside each cluster, over the given clusters and sites. */
export function throughputAcross(
  spread: FleetSpread,
  gpuType: string,
  { gpus, clusters, sites }: Across,
): number {
  if (gpus <= 1) return 1;
  const parts = { cluster: clusters, site: sites };
  let cost = BASE;
  for (const level of ["cluster", "site"] as const) {
    const least = leastParts(spread, { gpuType, gpus, level });
    cost += (STEPS[level] * Math.max(0, parts[level] - least)) / least;
  }
  return 1 / (1 + cost);
}

export interface Across {
  readonly gpus: number;
  readonly clusters: number;
  readonly sites: number;
}

/** The throughput of a gang of this size at its best spread. */
export const bestThroughput = (gpus: number): number => (gpus <= 1 ? 1 : 1 / (1 + BASE));

/** The cost of one more part of each level for a gang of this size; it is linear in the parts. */
export function partWeights(spread: FleetSpread, gpuType: string, gpus: number): PerLevel {
  const weight = (level: Level): number =>
    gpus <= 1 ? 0 : STEPS[level] / leastParts(spread, { gpuType, gpus, level });
  return {
    domain: weight("domain"),
    numa: weight("numa"),
    host: weight("host"),
    rack: weight("rack"),
    cluster: weight("cluster"),
    site: weight("site"),
  };
}

interface Size {
  readonly gpuType: string;
  readonly gpus: number;
  readonly level: Level;
}

/** The fewest parts that could hold the GPUs, were all free; all parts when even they could not. Cost: O(log parts). */
export function leastParts({ largest }: FleetSpread, { gpuType, gpus, level }: Size): number {
  const sums = largest.get(gpuType)?.[level] ?? [];
  let low = 0;
  let high = sums.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sums[middle] ?? Infinity) >= gpus) high = middle;
    else low = middle + 1;
  }
  return low + 1;
}

function sizesOf(hosts: readonly HostLayout[]): Readonly<Record<Level, readonly number[]>> {
  const together = (level: "rack" | "cluster" | "site"): readonly number[] => {
    const sizes = new Map<number, number>();
    for (const host of hosts) {
      sizes.set(host[level], (sizes.get(host[level]) ?? 0) + host.gpuCount);
    }
    return sumsOf(sizes.values());
  };
  const kinds = new Map<HostKind, number>();
  for (const { kind } of hosts) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const inside = (sizesIn: (kind: HostKind) => readonly number[]): readonly number[] =>
    sumsOf(
      [...kinds].flatMap(([kind, count]) =>
        sizesIn(kind).flatMap((size) => new Array<number>(count).fill(size)),
      ),
    );
  return {
    domain: inside(({ domains }) => domains.map((mask) => Math.max(popCount(mask), PAPER_GPUS))),
    numa: inside(({ numaNodes }) => numaNodes.map(popCount)),
    host: inside(({ gpuCount }) => [gpuCount]),
    rack: together("rack"),
    cluster: together("cluster"),
    site: together("site"),
  };
}

/** Of the largest, of the two largest, and so on. */
function sumsOf(sizes: Iterable<number>): readonly number[] {
  let sum = 0;
  return [...sizes].sort((a, b) => b - a).map((size) => (sum += size));
}
