/**
 * @file Chooses the sets over several hosts whose measurement the surrogate learns most from, before any set over hosts was measured.
 *
 * A pick takes the candidate with the best prediction, so the predictions of likely winners must be right. A state of the cluster is drawn
 * (a size of request, how many GPUs are free, which ones), all ways to split the request over the hosts are put in order, each host
 * with its fastest free GPUs, and one at random of the first `HOPEFUL_SHARE` that is new is measured. The order:
 *   hosts of one type       the host with fewest GPUs has most of them, then fewest hosts, then the fastest slowest host: each host
 *                           reaches the network through its own GPUs, so even splits are the likely winners.
 *   hosts of several types  the fastest slowest host first: where a slow host explains the measurement, it says nothing of the network.
 * Measurements over hosts are not used. Domains with more than `MOST_WAYS` vectors of counts: a sample of ways of up to
 * `MOST_HOSTS` hosts. Cost: O(count · ways · log ways). Ties: the earlier way.
 */

import type {
  BandwidthDomain,
  Candidate,
  PickShare,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { shuffled, type Random } from "../../lib/random.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { insideGbs } from "../bandwidth/inside.ts";

interface TrainingSetsNeed {
  readonly count: number;
  readonly random: Random;
  /** The identity of a set: sets of one name are measured once. Hosts and GPUs when absent. */
  readonly nameOf?: (candidate: Candidate) => string;
  /** Measured already: not again. */
  readonly measured?: readonly Candidate[];
  /** Indices of the hosts that may take part; all of the domain when absent. */
  readonly hosts?: readonly number[];
  /** Those that can be measured; all when absent. */
  readonly isOpen?: (candidate: Candidate) => boolean;
}

/** The part of the ways that has a chance to win. */
const HOPEFUL_SHARE = 0.25;
/** States in vain before a small cluster counts as exhausted. */
const MAX_MISSES = 400;
/** Vectors of counts that are listed; of more a sample. */
const MOST_WAYS = 10_000;
const SAMPLED_WAYS = 200;
/** A sampled way is over at most so many hosts. */
const MOST_HOSTS = 8;

export function trainingSets(
  domain: BandwidthDomain,
  need: TrainingSetsNeed,
): readonly Candidate[] {
  const { count, random, nameOf = plainName, isOpen = () => true, measured = [] } = need;
  const { hosts = [...domain.hosts.keys()] } = need;
  const bestOf = bestMasks(domain);
  const order = orderOf(domain, hosts);
  const old = new Set(measured.map(nameOf));
  const found = new Map<string, Candidate>();
  let misses = 0;
  for (let round = 0; found.size < count && misses < MAX_MISSES; round += 1) {
    const own = random.stream(`round ${String(round)}`);
    const state = drawnState(domain, hosts, own);
    const ways = waysOf(state, own)
      .map((counts) => wayOf(domain, counts, (host, most) => bestOf(host, state, most)))
      .filter(({ candidate }) => candidate.length > 1)
      .sort(order);
    const fresh = ways.slice(0, Math.ceil(ways.length * HOPEFUL_SHARE)).filter(({ candidate }) => {
      const name = nameOf(candidate);
      return !found.has(name) && !old.has(name) && isOpen(candidate);
    });
    const way = fresh[own.below(Math.max(1, fresh.length))];
    misses = way === undefined ? misses + 1 : 0;
    if (way !== undefined) found.set(nameOf(way.candidate), way.candidate);
  }
  return [...found.values()];
}

/** GPUs that are asked for, and those that are free, by host of the domain. */
export interface State {
  readonly gpus: number;
  readonly freeMasks: readonly number[];
}

/** A size from 2 up, a number of free GPUs from that up, and then any of them; of a large cluster a few hosts. */
export function drawnState(
  { hosts }: BandwidthDomain,
  open: readonly number[],
  random: Random,
): State {
  const ways = open.reduce((product, host) => product * ((hosts[host]?.gpuCount ?? 0) + 1), 1);
  const members = ways <= MOST_WAYS ? open : shuffled(open, random).slice(0, MOST_HOSTS);
  const all = members.flatMap((host) =>
    Array.from({ length: hosts[host]?.gpuCount ?? 0 }, (_, gpu) => ({ host, bit: 1 << gpu })),
  );
  const gpus = Math.min(all.length, 2 + random.below(Math.max(1, all.length - 1)));
  const free = gpus + random.below(all.length - gpus + 1);
  const freeMasks = hosts.map(() => 0);
  for (const { host, bit } of shuffled(all, random).slice(0, free))
    freeMasks[host] = (freeMasks[host] ?? 0) | bit;
  return { gpus, freeMasks };
}

/** Vectors of counts by host, each with the sum that is asked for. */
function waysOf({ gpus, freeMasks }: State, random: Random): readonly (readonly number[])[] {
  const free = freeMasks.map(popCount);
  if (free.reduce((product, count) => product * (count + 1), 1) <= MOST_WAYS)
    return listed(free, gpus);
  const bits = free.flatMap((count, host) => new Array<number>(count).fill(host));
  return Array.from({ length: SAMPLED_WAYS }, () => {
    const counts = free.map(() => 0);
    for (const host of shuffled(bits, random).slice(0, gpus))
      counts[host] = (counts[host] ?? 0) + 1;
    return counts;
  });
}

function listed(free: readonly number[], gpus: number): readonly (readonly number[])[] {
  let ways: { readonly counts: readonly number[]; readonly open: number }[] = [
    { counts: [], open: gpus },
  ];
  for (const most of free)
    ways = ways.flatMap(({ counts, open }) =>
      Array.from({ length: Math.min(most, open) + 1 }, (_, count) => ({
        counts: [...counts, count],
        open: open - count,
      })),
    );
  return ways.filter(({ open }) => open === 0).map(({ counts }) => counts);
}

interface Way {
  readonly candidate: Candidate;
  /** Intra-host GB/s of its slowest host. */
  readonly slowest: number;
  /** GPUs of the host that has fewest. */
  readonly fewest: number;
}

function wayOf(
  domain: BandwidthDomain,
  counts: readonly number[],
  maskOf: (host: number, count: number) => number | undefined,
): Way {
  const used = counts.flatMap((count, host) => (count > 0 ? [{ host, count }] : []));
  const candidate = used.flatMap(({ host, count }): PickShare[] => {
    const mask = maskOf(host, count);
    return mask === undefined ? [] : [{ host, mask }];
  });
  return {
    candidate,
    slowest: insideGbs(domain, candidate),
    fewest: used.reduce((least, { count }) => Math.min(least, count), Infinity),
  };
}

function orderOf(domain: BandwidthDomain, hosts: readonly number[]): (a: Way, b: Way) => number {
  const isOneType = new Set(hosts.map((host) => domain.hosts[host]?.gpuType)).size === 1;
  // Infinity less Infinity is no number.
  const bySlowest = (a: Way, b: Way): number =>
    a.slowest === b.slowest ? 0 : b.slowest - a.slowest;
  if (!isOneType) return bySlowest;
  return (a, b) =>
    b.fewest - a.fewest || a.candidate.length - b.candidate.length || bySlowest(a, b);
}

/** Of the free GPUs of a host so many that are fastest inside; the lowest mask of equal ones. */
export function bestMasks(
  domain: BandwidthDomain,
): (host: number, state: State, count: number) => number | undefined {
  const known = new Map<string, readonly (number | undefined)[]>();
  return (host, { freeMasks }, count) => {
    const free = freeMasks[host] ?? 0;
    const key = `${String(host)}/${String(free)}`;
    const masks = known.get(key) ?? bestOfHost(domain, host, free);
    known.set(key, masks);
    return masks[count];
  };
}

function bestOfHost(
  domain: BandwidthDomain,
  host: number,
  free: number,
): readonly (number | undefined)[] {
  const best: { mask: number; gbs: number }[] = [];
  // Subsets from large to small numbers: of equals the last, so the lowest, stays.
  for (let mask = free; mask !== 0; mask = (mask - 1) & free) {
    const count = popCount(mask);
    const gbs = count === 1 ? Infinity : (domain.intraGbs(host, mask) ?? 0);
    if (gbs >= (best[count]?.gbs ?? 0)) best[count] = { mask, gbs };
  }
  return Array.from(best, (one: { readonly mask: number } | undefined) => one?.mask);
}

const plainName = (candidate: Candidate): string =>
  candidate.map(({ host, mask }) => `${String(host)}:${String(mask)}`).join("/");
