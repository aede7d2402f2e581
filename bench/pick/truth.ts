/**
 * @file True bandwidths of BandPilot's clusters: the measured H100 cluster, and the mixed ones made as the paper's §5.1.1 says.
 *
 * One GPU alone has no limit (Infinity), several GPUs of one host read what was measured on that host. GPUs over several hosts:
 * H100: the mean of what was measured for the same multiset of counts per host, for the file varies nothing else (hosts always
 * in one order, GPUs of a host always from GPU 0 up). Mixed: the least of the members' intra-host bandwidths and a quarter of
 * the H100 value of the same multiset. A multiset that was not measured has no value.
 */

import { meanGbs, type MeasuredSet } from "../../domain/bandwidth/bandwidth-table.ts";
import { hostId } from "../../domain/values/ids.ts";
import { shuffled, type Random } from "../../lib/random.ts";
import type {
  BandwidthDomain,
  BandwidthSample,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";
import type { TruthData, TruthHost } from "./truth-data.ts";
import { popCount } from "../../domain/lease/lease.ts";

export interface Truth {
  readonly name: string;
  readonly domain: BandwidthDomain;
  /** GB/s; undefined where the data does not say. */
  readonly gbs: (candidate: Candidate) => number | undefined;
  /** Every measurement over several hosts, repeats too; none of a cluster that was never built. */
  readonly samples: readonly BandwidthSample[];
  /**
   * Up to `count` different candidates over several hosts with their values, in random order. Of a measured cluster one for each
   * multiset, so that repeats never lie on both sides of a split; of a mixed one any GPUs: a size from 2 up, then a set of that size.
   */
  readonly draw: (count: number, random: Random) => readonly BandwidthSample[];
}

type HetKind = "Het-4Mix" | "Het-RA" | "Het-VA";

/** GPU types by host, table 1 of the paper. */
const HET_HOSTS: Readonly<Record<HetKind, readonly string[]>> = {
  "Het-4Mix": ["4090", "V100", "A6000", "A800"],
  "Het-RA": ["4090", "4090", "A800", "A800"],
  "Het-VA": ["V100", "V100", "A6000", "A6000"],
};

export const HET_KINDS: readonly HetKind[] = ["Het-4Mix", "Het-RA", "Het-VA"];

/** The share of the H100 fabric that the mixed clusters have. */
const HET_FABRIC_SHARE = 0.25;

export function h100Truth(data: TruthData): Truth {
  const domain = domainOf("h100", data.fabricHosts);
  const byCounts = meansByCounts(data.sets);
  const samples = data.sets.flatMap(({ masks, gbs }) => {
    const shares = candidateOf(masks);
    return shares.length < 2 ? [] : gbs.map((one) => ({ shares, gbs: one }));
  });
  const shapes = new Map(samples.map(({ shares }) => [countsKey(shares), shares]));
  const draw = (count: number, random: Random): BandwidthSample[] => {
    const order = shuffled([...shapes.entries()], random).slice(0, count);
    return order.flatMap(([key, shares]) => {
      const gbs = byCounts.get(key);
      return gbs === undefined ? [] : [{ shares, gbs }];
    });
  };
  const gbs = (candidate: Candidate): number | undefined =>
    candidate.length === 1 ? insideGbs(domain, candidate) : byCounts.get(countsKey(candidate));
  return { name: "H100", domain, gbs, samples, draw };
}

/** Undefined where the data lacks one of the host types. A type of which one host was measured stands in for all its hosts. */
export function hetTruth(kind: HetKind, data: TruthData): Truth | undefined {
  const hosts: TruthHost[] = [];
  for (const type of HET_HOSTS[kind]) {
    const measured = data.hosts.filter((host) => host.gpuType === type);
    const earlier = hosts.filter((host) => host.gpuType === type).length;
    const host = measured[earlier % Math.max(1, measured.length)];
    if (host === undefined) return undefined;
    hosts.push({ ...host, name: `${type}-${String(earlier + 1)}` });
  }
  const domain = domainOf(kind.toLowerCase(), hosts);
  const byCounts = meansByCounts(data.sets);
  const gbs = (candidate: Candidate): number | undefined => {
    const inside = insideGbs(domain, candidate);
    if (candidate.length === 1 || inside === undefined) return inside;
    const fabric = byCounts.get(countsKey(candidate));
    return fabric === undefined ? undefined : Math.min(inside, fabric * HET_FABRIC_SHARE);
  };
  const draw = (count: number, random: Random): BandwidthSample[] =>
    drawnFrom(domain, gbs, { count, random });
  return { name: kind, domain, gbs, samples: [], draw };
}

/** GPUs per host, most first: the key of the measured file. */
export function countsKey(candidate: Candidate): string {
  return candidate
    .map(({ mask }) => popCount(mask))
    .sort((a, b) => b - a)
    .join("+");
}

export function candidateOf(masks: readonly number[]): Candidate {
  return masks.flatMap((mask, host) => (mask === 0 ? [] : [{ host, mask }]));
}

function domainOf(cluster: string, hosts: readonly TruthHost[]): BandwidthDomain {
  return {
    hosts: hosts.map(({ name, gpuType, table }) => ({
      id: hostId(cluster, name),
      gpuCount: table.gpuCount,
      gpuType,
    })),
    intraGbs: (host, mask) =>
      isOneGpu(mask) ? Infinity : (hosts[host]?.table.gbsByMask[mask] ?? undefined),
  };
}

const isOneGpu = (mask: number): boolean => mask !== 0 && (mask & (mask - 1)) === 0;

/** The slowest member host; undefined where one was not measured. */
function insideGbs(domain: BandwidthDomain, candidate: Candidate): number | undefined {
  let least = Infinity;
  for (const { host, mask } of candidate) {
    const gbs = domain.intraGbs(host, mask);
    if (gbs === undefined) return undefined;
    least = Math.min(least, gbs);
  }
  return least;
}

/** Sets of the same counts with several measurements: the mean of all. */
function meansByCounts(sets: readonly MeasuredSet[]): ReadonlyMap<string, number> {
  const byCounts = new Map<string, number[]>();
  for (const { masks, gbs } of sets) {
    const candidate = candidateOf(masks);
    if (candidate.length < 2) continue;
    const key = countsKey(candidate);
    byCounts.set(key, [...(byCounts.get(key) ?? []), ...gbs]);
  }
  return new Map([...byCounts].map(([key, gbs]) => [key, meanGbs({ masks: [], gbs })] as const));
}

interface Drawing {
  readonly count: number;
  readonly random: Random;
}

/** Tries in vain before a small domain counts as exhausted. */
const MAX_MISSES = 1_000;

function drawnFrom(
  domain: BandwidthDomain,
  gbsOf: Truth["gbs"],
  { count, random }: Drawing,
): BandwidthSample[] {
  const gpus = domain.hosts.flatMap(({ gpuCount }, host) =>
    Array.from({ length: gpuCount }, (_, gpu) => ({ host, bit: 1 << gpu })),
  );
  const seen = new Set<string>();
  const drawn: BandwidthSample[] = [];
  for (let misses = 0; drawn.length < count && misses < MAX_MISSES; misses += 1) {
    const size = 2 + random.below(gpus.length - 1);
    const masks = domain.hosts.map(() => 0);
    for (const { host, bit } of shuffled(gpus, random).slice(0, size)) {
      masks[host] = (masks[host] ?? 0) | bit;
    }
    const shares = candidateOf(masks);
    const gbs = shares.length < 2 ? undefined : gbsOf(shares);
    if (gbs === undefined || seen.has(masks.join("/"))) continue;
    seen.add(masks.join("/"));
    drawn.push({ shares, gbs });
    misses = 0;
  }
  return drawn;
}
