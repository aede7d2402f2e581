/**
 * @file Chooses the sets to measure on a large cluster: each host beside few others, and sets over several racks.
 *
 * A set is as fast as its weakest host, so a fast set clears all of its hosts and a slow one accuses all: sets of `GROUP` whole hosts of one rack
 * say most of a host. Two hosts alone would not do: trees send half as much through the cards of two hosts as through those of
 * many, so a card with two thirds of its bandwidth costs a pair nothing and a larger gang a third. A rack of no more hosts than that has groups of one
 * host fewer. Of six sets three are such groups; each round has every host once, beside others than before. Two are over several racks: three of four over two racks, two
 * hosts of each, each round every rack beside another, because ways out of racks may differ and a set over many racks accuses all of them; the rest over 2, 4, 8, …
 * (one to three hosts of each, at most half of the cluster), which shows what the number of racks costs. The sixth is left to the plan for small clusters
 * (measuring-sets.ts), for hosts that give some of their GPUs. Measurements are not used. Ties: the fleet's order. Cost: O(count · hosts).
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { fullMask } from "../../lib/bits.ts";
import { shuffled, type Random } from "../../lib/random.ts";
import { keyOf } from "./measuring-plan.ts";

interface RackNeed {
  readonly count: number;
  readonly random: Random;
  readonly measured: readonly Candidate[];
  readonly hosts: readonly number[];
}

const FEW_HOSTS = 16;
/** Whole hosts of one rack: enough that each carries what it carries in a large gang, few enough that most groups have no slow one. */
const GROUP = 4;
/** Of all sets. */
const GROUPS_SHARE = 3 / 6;
const PAIRS_SHARE = 3 / 12;
const SPREAD_SHARE = 1 / 12;
/** Hosts of each of two racks: as many together as a group has, whose bandwidth is known. */
const OF_EACH = GROUP / 2;
/** Racks of a set over several: 2 to the power of up to this. */
const MOST_DOUBLINGS = 6;

export const isLarge = (hosts: readonly number[]): boolean => hosts.length > FEW_HOSTS;

/** Fewer than asked where there are no more groups. */
export function rackSets(domain: BandwidthDomain, need: RackNeed): readonly Candidate[] {
  const { count, random, measured, hosts } = need;
  const racks = racksOf(domain, hosts);
  const known = new Set(measured.map(keyOf));
  const fresh = (candidate: Candidate): boolean => {
    const key = keyOf(candidate);
    if (candidate.length < 2 || known.has(key)) return false;
    known.add(key);
    return true;
  };
  const wanted = Math.round(count * GROUPS_SHARE);
  const groups: Candidate[] = [];
  for (let round = 0; round < MOST_ROUNDS && groups.length < wanted; round += 1)
    groups.push(...grouped(domain, racks, random.stream(`round ${String(round)}`)).filter(fresh));
  const pairs: Candidate[] = [];
  const wantedPairs = Math.round(count * PAIRS_SHARE);
  for (let round = 0; round < MOST_ROUNDS && pairs.length < wantedPairs; round += 1)
    pairs.push(...paired(domain, racks, random.stream(`pairs ${String(round)}`)).filter(fresh));
  const spread: Candidate[] = [];
  const own = random.stream("racks");
  for (let at = 0; racks.length > 1 && at < Math.round(count * SPREAD_SHARE); at += 1) {
    const set = overRacks(domain, racks, { at, random: own });
    if (fresh(set)) spread.push(set);
  }
  return [...groups.slice(0, wanted), ...pairs.slice(0, wantedPairs), ...spread];
}

/** With small racks all groups come up soon. */
const MOST_ROUNDS = 64;

/** Hosts without a rack are in one. */
function racksOf(
  { hosts: all }: BandwidthDomain,
  hosts: readonly number[],
): readonly (readonly number[])[] {
  const byRack = new Map<string, number[]>();
  for (const host of hosts) {
    const rack = all[host]?.rack ?? "";
    byRack.set(rack, [...(byRack.get(rack) ?? []), host]);
  }
  return [...byRack.values()];
}

/** Each host once, in random order; the last group of a rack is filled up with hosts of its first ones. */
function grouped(
  domain: BandwidthDomain,
  racks: readonly (readonly number[])[],
  random: Random,
): readonly Candidate[] {
  return racks.flatMap((hosts) => {
    const order = shuffled(hosts, random);
    const size = groupSize(order.length);
    return Array.from({ length: Math.ceil(order.length / size) }, (_, at) =>
      whole(domain, [...order, ...order].slice(at * size, (at + 1) * size)),
    );
  });
}

/** Fewer than the rack has, where it has more than two: the only group of a rack would accuse all of its hosts of what one of them loses. */
const groupSize = (hosts: number): number => Math.min(GROUP, Math.max(2, hosts - 1), hosts);

/** Each rack once beside another one, the odd one left out; none of a single rack. */
function paired(
  domain: BandwidthDomain,
  racks: readonly (readonly number[])[],
  random: Random,
): readonly Candidate[] {
  const order = shuffled(racks, random);
  return Array.from({ length: order.length >> 1 }, (_, at) =>
    whole(
      domain,
      order.slice(2 * at, 2 * at + 2).flatMap((hosts) => shuffled(hosts, random).slice(0, OF_EACH)),
    ),
  );
}

function overRacks(
  domain: BandwidthDomain,
  racks: readonly (readonly number[])[],
  { at, random }: { readonly at: number; readonly random: Random },
): Candidate {
  const doublings = 1 + (at % Math.min(MOST_DOUBLINGS, Math.floor(Math.log2(racks.length))));
  const chosen = shuffled(racks, random).slice(0, 2 ** doublings);
  const each = 1 + random.below(MOST_OF_RACK);
  const members = chosen.flatMap((hosts) => shuffled(hosts, random).slice(0, each));
  const most = racks.reduce((sum, { length }) => sum + length, 0) / 2;
  return whole(domain, members.slice(0, Math.max(2, Math.floor(most))));
}

/** Few hosts of each rack: the more, the likelier one of them is slow and hides what the racks cost. */
const MOST_OF_RACK = 3;

const whole = ({ hosts: all }: BandwidthDomain, hosts: readonly number[]): Candidate =>
  hosts
    .map((host) => ({ host, mask: fullMask(all[host]?.gpuCount ?? 0) }))
    .sort((a, b) => a.host - b.host);
