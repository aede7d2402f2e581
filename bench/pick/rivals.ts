/**
 * @file The dispatchers that BandPilot is compared with (appendix D), each with the rule behind every "any" of its algorithm.
 *
 *   Random      algorithm 3: a uniform subset of the free GPUs, from a seeded stream.
 *   Default     "fills GPUs on a same NUMA or CPU affinity". Two readings:
 *               by id      host after host, GPU after GPU, whatever is free: no look at who could hold the gang.
 *               NUMA first algorithm 4: any host that holds the gang = the lowest; any subset of it = whole NUMA nodes with most free
 *                          GPUs first, lowest GPUs in them; any subset of the pool of the m largest hosts = NUMA node after NUMA node,
 *                          those with most free GPUs first, whichever host they are on.
 *   Topo        algorithm 5: of the hosts that hold the gang the subset with the highest sum of link weights, ties: lowest host, lowest
 *               mask. Else the pool of the m hosts with most free GPUs (ties: lowest); any subset of it = the densest: all of the largest
 *               hosts, of the last as many as are missing, those with the highest sum of weights.
 *   Topo, any   the same with a uniform subset of the pool, the other honest reading of line 13.
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { lowestBits } from "../../lib/bits.ts";
import { shuffled, type Random } from "../../lib/random.ts";
import { plainLinks, type HostLinks, type LinksByType } from "./links.ts";
import type { Scenario } from "./scenarios.ts";
import { candidateOf } from "./truth.ts";

export type Dispatcher = (scenario: Scenario) => Candidate;

export const randomChoice =
  (random: Random): Dispatcher =>
  ({ gpus, freeMasks }) =>
    fromBits(shuffled(bitsOf(freeMasks), random).slice(0, gpus), freeMasks.length);

export const defaultById: Dispatcher = ({ gpus, freeMasks }) =>
  fromBits(bitsOf(freeMasks).slice(0, gpus), freeMasks.length);

export const defaultNumaFirst =
  (domain: BandwidthDomain, links: LinksByType): Dispatcher =>
  ({ gpus, freeMasks }) => {
    const single = freeMasks.findIndex((mask) => popCount(mask) >= gpus);
    const pool = single >= 0 ? [single] : poolOf(freeMasks, gpus);
    const nodes = pool
      .flatMap((host) =>
        linksOfHost(domain, links, host).numaNodes.map((node) => ({
          host,
          mask: node & (freeMasks[host] ?? 0),
        })),
      )
      .sort((a, b) => popCount(b.mask) - popCount(a.mask) || a.host - b.host || a.mask - b.mask);
    const masks = freeMasks.map(() => 0);
    let open = gpus;
    for (const { host, mask } of nodes) {
      const taken = lowestBits(mask, open);
      masks[host] = (masks[host] ?? 0) | taken;
      open -= popCount(taken);
    }
    return candidateOf(masks);
  };

export const topo =
  (domain: BandwidthDomain, links: LinksByType): Dispatcher =>
  ({ gpus, freeMasks }) => {
    const able = freeMasks.flatMap((mask, host) => (popCount(mask) >= gpus ? [host] : []));
    if (able.length > 0) return densestHost(able, { domain, links, gpus, freeMasks });
    const masks = freeMasks.map(() => 0);
    let open = gpus;
    for (const host of poolOf(freeMasks, gpus)) {
      const free = freeMasks[host] ?? 0;
      const count = Math.min(open, popCount(free));
      masks[host] = densestSet(linksOfHost(domain, links, host), free, count).mask;
      open -= count;
    }
    return candidateOf(masks);
  };

export const topoAny =
  (domain: BandwidthDomain, links: LinksByType, random: Random): Dispatcher =>
  ({ gpus, freeMasks }) => {
    const able = freeMasks.flatMap((mask, host) => (popCount(mask) >= gpus ? [host] : []));
    if (able.length > 0) return densestHost(able, { domain, links, gpus, freeMasks });
    const pool = new Set(poolOf(freeMasks, gpus));
    const masks = freeMasks.map((mask, host) => (pool.has(host) ? mask : 0));
    return fromBits(shuffled(bitsOf(masks), random).slice(0, gpus), freeMasks.length);
  };

interface Ground {
  readonly domain: BandwidthDomain;
  readonly links: LinksByType;
  readonly gpus: number;
  readonly freeMasks: readonly number[];
}

function densestHost(able: readonly number[], ground: Ground): Candidate {
  const { domain, links, gpus, freeMasks } = ground;
  let best = { host: 0, mask: 0, weight: -1 };
  for (const host of able) {
    const found = densestSet(linksOfHost(domain, links, host), freeMasks[host] ?? 0, gpus);
    if (found.weight > best.weight) best = { host, ...found };
  }
  return [{ host: best.host, mask: best.mask }];
}

/** The lowest of equals. */
function densestSet(
  { weight }: HostLinks,
  freeMask: number,
  count: number,
): { readonly mask: number; readonly weight: number } {
  let best = { mask: 0, weight: -1 };
  for (let mask = freeMask; mask !== 0; mask = (mask - 1) & freeMask) {
    if (popCount(mask) !== count) continue;
    const own = weightOf(mask, weight);
    if (own >= best.weight) best = { mask, weight: own };
  }
  return best;
}

function weightOf(mask: number, weight: HostLinks["weight"]): number {
  let sum = 0;
  for (let a = 0; a < 30; a += 1) {
    if ((mask & (1 << a)) === 0) continue;
    for (let b = a + 1; b < 30; b += 1) if ((mask & (1 << b)) !== 0) sum += weight(a, b);
  }
  return sum;
}

/** The fewest hosts that hold the gang, those with most free GPUs first. */
function poolOf(freeMasks: readonly number[], gpus: number): readonly number[] {
  const pool: number[] = [];
  let open = gpus;
  const most = freeMasks
    .map((mask, host) => ({ host, free: popCount(mask) }))
    .sort((a, b) => b.free - a.free || a.host - b.host);
  for (const { host, free } of most) {
    if (open <= 0) break;
    pool.push(host);
    open -= free;
  }
  return pool;
}

function linksOfHost(domain: BandwidthDomain, links: LinksByType, host: number): HostLinks {
  const { gpuType = "", gpuCount = 0 } = domain.hosts[host] ?? {};
  return links.get(gpuType) ?? plainLinks(gpuCount);
}

interface Bit {
  readonly host: number;
  readonly bit: number;
}

const bitsOf = (masks: readonly number[]): readonly Bit[] =>
  masks.flatMap((mask, host) => {
    const bits: Bit[] = [];
    for (let rest = mask; rest !== 0; rest &= rest - 1) bits.push({ host, bit: rest & -rest });
    return bits;
  });

function fromBits(bits: readonly Bit[], hosts: number): Candidate {
  const masks = new Array<number>(hosts).fill(0);
  for (const { host, bit } of bits) masks[host] = (masks[host] ?? 0) | bit;
  return candidateOf(masks);
}
