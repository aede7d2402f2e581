/**
 * @file Chooses the few sets to measure with other messages than those of the tables.
 *
 * What is to be found is how bandwidths change with the messages (bandwidth/size-transfer.ts): a few sets inside hosts, of each count in turn, some over
 * two hosts, and sets over several hosts, most of them such that picks are decided by (measuring-sets.ts), some of the extremes (measuring-plan.ts). Two hosts
 * are a kind of their own (trees send half as much through their cards), and chance may leave them out: then picks of two or three hosts go wrong by a third. Sets inside
 * and over hosts alternate, so that a run that stops early has some of each.
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { shuffled, type Random } from "../../lib/random.ts";
import { planBetween } from "./measuring-plan.ts";
import { measuringSets } from "./measuring-sets.ts";

interface OtherMessagesNeed {
  readonly count: number;
  readonly random: Random;
  /** Measured with these messages already: not again. */
  readonly measured: readonly Candidate[];
  /** Indices of the hosts that may take part; all of the domain when absent. */
  readonly hosts?: readonly number[];
  /** Those inside which sets are measured; all that take part when absent. */
  readonly insideOf?: readonly number[];
  /** The identity of a set over hosts: sets of one name are measured once. Hosts and GPUs when absent. */
  readonly nameOf?: (candidate: Candidate) => string;
}

/** Of all sets, those inside hosts. */
const INSIDE_SHARE = 0.2;
/** Of all sets, those over two hosts of a cluster with more. */
const TWO_HOSTS_SHARE = 0.12;
/** Of all sets, those over hosts that are least like the others: the slopes would reach too far without. */
const PLANNED_SHARE = 0.12;

export function otherMessageSets(
  domain: BandwidthDomain,
  need: OtherMessagesNeed,
): readonly Candidate[] {
  const { count, random, measured, nameOf } = need;
  const { hosts = [...domain.hosts.keys()], insideOf = hosts } = need;
  const known = measured.filter(({ length }) => length === 1);
  const wanted = Math.round((measured.length + count) * INSIDE_SHARE) - known.length;
  const inside = insideSets(domain, insideOf, random.stream("inside"))
    .filter(([share]) =>
      known.every(([other]) => other?.host !== share?.host || other?.mask !== share?.mask),
    )
    .slice(0, Math.max(0, Math.min(wanted, count)));
  const formerly = measured.filter(({ length }) => length > 1);
  const knownTwo = formerly.filter(({ length }) => length === 2).length;
  const wantedTwo = Math.round((measured.length + count) * TWO_HOSTS_SHARE) - knownTwo;
  const among = { hosts, ...(nameOf && { nameOf }) };
  const planned = Math.round((measured.length + count) * PLANNED_SHARE);
  const pair = shuffled(hosts, random.stream("which two"))
    .slice(0, 2)
    .sort((a, b) => a - b);
  const two = measuringSets(domain, {
    ...among,
    hosts: pair,
    count: hosts.length > 2 ? Math.max(0, Math.min(wantedTwo, count - inside.length)) : 0,
    random: random.stream("two hosts"),
    measured: formerly,
  });
  const left = count - inside.length - two.length;
  const deciding = measuringSets(domain, {
    ...among,
    count: Math.max(0, left - planned),
    random: random.stream("across"),
    measured: [...formerly, ...two],
  });
  const { picks: others } = planBetween(domain, {
    ...among,
    count: left - deciding.length,
    random: random.stream("planned"),
    measured: [...formerly, ...two, ...deciding],
  });
  const across = [...two, ...deciding, ...others];
  const every = Math.max(1, Math.ceil(across.length / Math.max(1, inside.length)));
  const mixed = inside.flatMap((set, at) => [set, ...across.slice(at * every, (at + 1) * every)]);
  return [...mixed, ...across.slice(inside.length * every)].slice(0, count);
}

/** Halving from whole hosts, one host after the other, and then the counts between. */
function insideSets(
  { hosts, intraGbs }: BandwidthDomain,
  members: readonly number[],
  random: Random,
): readonly Candidate[] {
  const most = Math.max(0, ...members.map((host) => hosts[host]?.gpuCount ?? 0));
  const halves: number[] = [];
  for (let count = most; count >= 2; count = Math.floor(count / 2)) halves.push(count);
  const between = Array.from({ length: most }, (_, at) => most - at).filter(
    (count) => count > 1 && !halves.includes(count),
  );
  return [...halves, ...between].flatMap((count, turn): Candidate[] => {
    const able = members.filter((host) => (hosts[host]?.gpuCount ?? 0) >= count);
    const host = able[turn % Math.max(1, able.length)];
    if (host === undefined) return [];
    const gpus = shuffled([...Array(hosts[host]?.gpuCount ?? 0).keys()], random).slice(0, count);
    const mask = gpus.reduce((bits, gpu) => bits | (1 << gpu), 0);
    return intraGbs(host, mask) === undefined ? [] : [[{ host, mask }]];
  });
}
