/**
 * @file The sets to measure in a cluster: inside hosts all unknown sets, over groups of hosts the most informative ones.
 *
 * Inside a host: every set of two GPUs or more, in the order of `masksByLook`. Over hosts: in groups of at most `GROUP_HOSTS`
 * neighbours in the fleet file, so that a large cluster is never occupied whole; a single remaining host joins the last group.
 * A time limit cuts first the sets of hosts to those that fit (each look at least once, early ones first), then the sets over
 * hosts.
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import type { HostShape } from "../../domain/fleet/fleet.ts";
import type { HostShares, MeasuringOrder } from "../../domain/bandwidth/measuring.ts";
import type { HostTopology } from "../../domain/values/topology.ts";
import type { Random } from "../../lib/random.ts";
import { byCodeUnit } from "../../domain/values/ids.ts";
import { isOneGpu } from "../../models/bandwidth/lookup.ts";
import {
  measuringCost,
  setsWithin,
  type HostWork,
  type MeasuringCost,
} from "../../models/measuring/measuring-cost.ts";
import { measuringSets } from "../../models/measuring/measuring-sets.ts";
import { otherMessageSets } from "../../models/measuring/other-message-sets.ts";
import { lookOf, masksByLook } from "../../models/bandwidth/symmetry-prior.ts";

const GROUP_HOSTS = 4;
/** Limit of an order, which is part of a job's description; the rest is left for the next run. */
export const MAX_SETS = 400;

export interface WorkNeed {
  readonly domain: BandwidthDomain;
  readonly hosts: readonly HostShape[];
  readonly topologies: ReadonlyMap<string, HostTopology>;
  /** Known sets over hosts. */
  readonly measured: readonly Candidate[];
  /** Wanted total of sets over hosts. */
  readonly between: number;
  /** Seconds for each set, by host id, from earlier readings. */
  readonly timedSeconds: ReadonlyMap<string, number>;
  readonly maxSeconds?: number;
  readonly random: Random;
  /** Other messages than the tables have: what is known is of these messages, and a few sets are measured, inside hosts too. */
  readonly isOther?: true;
}

export type Sets = MeasuringOrder["sets"];

export interface Work {
  readonly inside: readonly { readonly host: HostShape; readonly sets: Sets }[];
  readonly groups: readonly { readonly hosts: readonly HostShape[]; readonly sets: number }[];
  readonly cost: MeasuringCost;
}

export function workOf(need: WorkNeed): Work {
  const { hosts, maxSeconds, isOther } = need;
  const wanted = hosts.map((host) => ({ host, sets: isOther ? [] : setsInside(host, need) }));
  const inside = wanted.map(({ host, sets }) => ({
    host,
    sets: sets.slice(0, maxSeconds === undefined ? MAX_SETS : within(maxSeconds, host, need)),
  }));
  const hostWorks = inside.map(({ host, sets }) => hostWork(host, sets.length, need));
  const left =
    maxSeconds === undefined ? Infinity : maxSeconds - measuringCost(hostWorks, []).wallSeconds;
  const groups = groupsOf(hosts, need, left);
  const groupWorks = groups.map(({ hosts: members, sets }) => ({
    hosts: members.map((host) => hostWork(host, 0, need)),
    sets,
  }));
  return { inside, groups, cost: measuringCost(hostWorks, groupWorks) };
}

/** The sets of one group, when the sets inside its hosts are known. */
export function setsBetween(need: WorkNeed, members: readonly HostShape[], count: number): Sets {
  const { domain, measured, random } = need;
  const names = new Set(members.map(({ id }): string => id));
  const hosts = [...domain.hosts.entries()].flatMap(([at, { id }]) => (names.has(id) ? [at] : []));
  const own = measured.filter((shares) => shares.every(({ host }) => hosts.includes(host)));
  const among = { count, measured: own, random, hosts };
  const picks = need.isOther
    ? otherMessageSets(domain, { ...among, insideOf: firstRank(domain, hosts) })
    : measuringSets(domain, among);
  return picks.map((shares, at) => {
    const named: HostShares = shares.map(({ host, mask }) => [domain.hosts[host]?.id ?? "", mask]);
    // Over hosts no set stands for another one, because counts alone do not determine bandwidth.
    return { shares: named, look: String(at) };
  });
}

/** The host of the job's first rank, where sets inside a host are measured. */
const firstRank = ({ hosts }: BandwidthDomain, members: readonly number[]): number[] =>
  [...members].sort((a, b) => byCodeUnit(hosts[a]?.id ?? "", hosts[b]?.id ?? "")).slice(0, 1);

function setsInside({ id, gpuCount }: HostShape, { domain, topologies }: WorkNeed): Sets {
  const at = domain.hosts.findIndex((host) => host.id === id);
  const topology = topologies.get(id);
  const looks = new Map<string, number>();
  // Looks are numbered, because orders are part of a job's description.
  const lookAt = (mask: number): number => {
    const look = lookOf(topology, mask);
    const known = looks.get(look) ?? looks.size;
    looks.set(look, known);
    return known;
  };
  return masksByLook(gpuCount, topology)
    .filter((mask) => !isOneGpu(mask) && domain.intraGbs(at, mask) === undefined)
    .map((mask) => ({ shares: [[id, mask]], look: String(lookAt(mask)) }));
}

function hostWork({ id, gpuType, gpuCount }: HostShape, sets: number, need: WorkNeed): HostWork {
  const timedSeconds = need.timedSeconds.get(id);
  return {
    host: id,
    gpuType,
    gpuCount,
    sets,
    ...(timedSeconds !== undefined && { timedSeconds }),
  };
}

function within(maxSeconds: number, host: HostShape, need: WorkNeed): number {
  const { wallSeconds } = measuringCost([hostWork(host, 1, need)], []);
  return Math.min(MAX_SETS, wallSeconds <= 0 ? MAX_SETS : Math.floor(maxSeconds / wallSeconds));
}

function groupsOf(
  hosts: readonly HostShape[],
  need: WorkNeed,
  leftSeconds: number,
): Work["groups"] {
  const groups: HostShape[][] = [];
  for (const [at, host] of hosts.entries()) {
    const last = groups.at(-1);
    const isLeftOver = at === hosts.length - 1 && at % GROUP_HOSTS === 0;
    if (last !== undefined && (at % GROUP_HOSTS !== 0 || isLeftOver)) last.push(host);
    else groups.push([host]);
  }
  const open = groups.filter((group) => group.length > 1);
  const missing = Math.max(0, need.between - need.measured.length);
  return open.map((group, at) => {
    const share = Math.floor(missing / open.length) + (at < missing % open.length ? 1 : 0);
    const work = { hosts: group.map((host) => hostWork(host, 0, need)) };
    const fits = Number.isFinite(leftSeconds) ? setsWithin(leftSeconds / open.length, work) : share;
    return { hosts: group, sets: Math.min(share, fits, MAX_SETS) };
  });
}
