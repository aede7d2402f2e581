/**
 * @file What sets of a large cluster lose by the hosts and racks that they lie on: factors of bandwidth, found before anything else is learned.
 *
 * A collective runs at the pace of its slowest part. So a set that is as fast as any of its shape shows that all of its hosts are sound, and a
 * host is as fast as the fastest set that it was in: an upper envelope, where a regression on members would blame everyone who was measured
 * beside a slow host. In order:
 *   shape   sets of one rack by the GPU count of the host with fewest, of two hosts and of more: nearly the best of them is the shape's own.
 *   hosts   strength = the best of (bandwidth ÷ shape) over the sets that a host was in, at most 1; where there are any, over those in which
 *           all its cards carry their full load. Of a host that is not sound the slowest set counts in which it is the only such one. An
 *           unmeasured host has the mean.
 *   racks   what sets over 2, 3–4, 5–8, … racks lose beyond that: the median, never less with more racks.
 *   lone    what a set over several racks loses beyond that when one of them gives a single host.
 *   ways    in place of `racks`, where sets over as many racks differ by chance: what each rack lets through, and how likely (rack-ways.ts).
 * The factor of a set is that of its weakest host times that of its racks. The Transformer learns what is left. Clusters of at
 * most `FEW_HOSTS` hosts have none of this: there all hosts appear in many sets, and host-offsets.ts finds what differs.
 * Cost: O(hosts in samples), and O(hosts) a set.
 */

import type {
  BandwidthDomain,
  BandwidthSample,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { expectedPart, rackNames, rackWays, type RackWays } from "./rack-ways.ts";

/** Plain data: it is kept with the parameters. Logarithms, at most 0. */
export interface FabricFactors {
  /** By host id; absent: `unmeasured`. */
  readonly hosts: Readonly<Record<string, number>>;
  readonly unmeasured: number;
  /** By log2 of the number of racks, linear in between; beyond the end the last one. */
  readonly racks: readonly number[];
  /** Of sets over several racks, of which one gives a single host; absent: nothing. */
  readonly lone?: number;
  /** Absent: what racks cost goes by their number alone. */
  readonly ways?: RackWays;
  /** Beyond this no set was seen to go; absent: not known. */
  readonly most?: MostLogs;
}

/** Logarithms of GB/s of whole sound hosts of one rack, and by which power of (GPUs ÷ all GPUs) of its host with fewest a set falls below that. */
export interface MostLogs {
  readonly twoHosts?: number;
  readonly moreHosts?: number;
  readonly power: number;
}

const FEW_HOSTS = 16;
/** Of the sets of a shape, the best but for what noise adds. */
const SHAPE_QUANTILE = 0.9;
/** Sets that show a shape's own bandwidth; with fewer it follows the number of cards. */
const LEAST_OF_SHAPE = 4;
/** Relative: a host this close to the best is as good. */
const NOISE = 0.03;
/** A host that reads less than this has failed and not slowed down; its sets must not decide anything else. */
const LEAST_LOG = Math.log(0.05);

/** Undefined where the cluster is small. */
export function fabricFactors(
  domain: BandwidthDomain,
  samples: readonly BandwidthSample[],
): FabricFactors | undefined {
  if (domain.hosts.length <= FEW_HOSTS) return undefined;
  const sets = samples
    .filter(({ shares, gbs }) => shares.length > 1 && gbs > 0)
    .map(({ shares, gbs }) => ({ shares, log: Math.log(gbs), racks: racksOf(domain, shares) }));
  if (sets.length === 0) return undefined;
  const near = sets.filter(({ racks }) => racks === 1);
  const shapeOf = shapeLogs(near.length > 0 ? near : sets);
  const telling = strengths(
    domain,
    sets.filter(({ shares }) => isTelling(domain, shares)),
    shapeOf,
  );
  const hosts = new Map([...strengths(domain, sets, shapeOf), ...telling]);
  for (const [host, log] of alone(domain, near, { shapeOf, hosts })) hosts.set(host, log);
  const all = [...hosts.values()];
  const unmeasured = all.reduce((sum, log) => sum + log, 0) / Math.max(1, all.length);
  const found = { hosts: Object.fromEntries(hosts), unmeasured, racks: [] };
  const lost = sets.map(({ shares, log, racks }) => ({
    shares,
    racks,
    isLone: hasLoneHost(domain, shares),
    log: log - shapeOf(shares) - weakest(domain, found, shares),
  }));
  const racks = rackLogs(lost);
  const lone = loneLog(lost, racks);
  const ways =
    lone === undefined
      ? rackWays(
          lost
            .filter(({ shares, racks: over }) => over > 1 && leastPart(domain, shares) === 1)
            .map(({ shares, log }) => {
              const most = Math.exp(weakest(domain, found, shares));
              const part = Math.exp(log) * most;
              return { racks: rackNames(domain, shares), hosts: shares.length, part, most };
            }),
        )
      : undefined;
  const factors = {
    ...found,
    racks,
    ...(lone !== undefined && { lone }),
    ...(ways !== undefined && { ways }),
  };
  return { ...factors, ...mostLogs(domain, sets, factors) };
}

/**
 * The Transformer has seen few sets of many hosts, or of hosts that give some GPUs, and may put them above all that was measured: more
 * hosts, or fewer cards of each, make no gang faster. Of several kinds of hosts the fastest limits all: a kind of which there are few is not held to what
 * the others reach.
 */
function mostLogs(
  domain: BandwidthDomain,
  sets: readonly RackedSet[],
  factors: FabricFactors,
): Pick<FabricFactors, "most"> {
  const sound = sets.map(({ shares, log, racks }) => ({
    // Over several racks a set may be lucky.
    isSure: factors.ways === undefined || racks === 1,
    isTwo: shares.length === 2,
    kind: kindsKey(domain, shares),
    part: leastPart(domain, shares),
    log: log - factorLog(domain, factors, shares),
  }));
  const whole = sound.filter(({ part, isSure }) => part === 1 && isSure);
  const byKind = new Map<string, number[]>();
  for (const { kind, log } of whole) byKind.set(kind, [...(byKind.get(kind) ?? []), log]);
  const mostOf = new Map(
    [...byKind].map(([kind, logs]) => [kind, quantileOf(logs, SHAPE_QUANTILE)]),
  );
  const of = (isTwo: boolean): number | undefined => {
    const own = whole.filter((set) => set.isTwo === isTwo);
    const kinds = [...new Set(own.map(({ kind }) => kind))];
    return own.length < LEAST_OF_SHAPE
      ? undefined
      : Math.max(...kinds.map((kind) => mostOf.get(kind) ?? -Infinity));
  };
  const [moreHosts, twoHosts] = [of(false), of(true)];
  const powers = sound.flatMap(({ isTwo, kind, part, log }) => {
    const own = (isTwo ? twoHosts : moreHosts) === undefined ? undefined : mostOf.get(kind);
    return part === 1 || own === undefined ? [] : [(log - own) / Math.log(part)];
  });
  const power = powers.length < LEAST_OF_SHAPE ? LEAST_POWER : quantileOf(powers, 0.5);
  if (moreHosts === undefined && twoHosts === undefined) return {};
  return {
    most: {
      ...(moreHosts !== undefined && { moreHosts }),
      ...(twoHosts !== undefined && { twoHosts }),
      power: Math.min(1, Math.max(LEAST_POWER, power)),
    },
  };
}

/** Above 0: of two sets that are as fast, the one that leaves no card out is the safer. */
const LEAST_POWER = 0.05;

/** GPU types and counts of its hosts, of two of them or of more. */
function kindsKey({ hosts }: BandwidthDomain, shares: Candidate): string {
  const kinds = new Set(
    shares.map(({ host }) => `${hosts[host]?.gpuType ?? ""} ${String(hosts[host]?.gpuCount ?? 0)}`),
  );
  return `${[...kinds].sort().join()}/${shares.length > 2 ? "more" : "two"}`;
}

/** Of the host that gives the smallest part of its GPUs. */
function leastPart({ hosts }: BandwidthDomain, shares: Candidate): number {
  let least = 1;
  for (const { host, mask } of shares)
    least = Math.min(least, popCount(mask) / (hosts[host]?.gpuCount ?? 1));
  return least;
}

/** Logarithm of the most that a set may have before its factor; Infinity where nothing is known. */
export function mostLog(
  domain: BandwidthDomain,
  { most }: FabricFactors,
  shares: Candidate,
): number {
  const all = shares.length === 2 ? most?.twoHosts : most?.moreHosts;
  return all === undefined || most === undefined
    ? Infinity
    : all + most.power * Math.log(leastPart(domain, shares));
}

/** Whether all cards of its hosts have their full load: not of hosts that give some GPUs, nor of two, where trees need half of each card. */
const isTelling = ({ hosts }: BandwidthDomain, shares: Candidate): boolean =>
  shares.length > 2 && shares.every(({ host, mask }) => popCount(mask) === hosts[host]?.gpuCount);

interface RackedSet extends LoggedSet {
  readonly racks: number;
}

/**
 * Of hosts that no set has cleared: the slowest set whose other hosts all are sound, for then it is the host's own. Its fastest set says less,
 * because a tree spares the cards of some of its hosts.
 */
function alone(
  domain: BandwidthDomain,
  sets: readonly LoggedSet[],
  {
    shapeOf,
    hosts,
  }: {
    readonly shapeOf: (shares: Candidate) => number;
    readonly hosts: ReadonlyMap<string, number>;
  },
): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const { shares, log } of sets) {
    if (!isTelling(domain, shares)) continue;
    const slow = shares.filter(({ host }) => (hosts.get(domain.hosts[host]?.id ?? "") ?? 0) < 0);
    const [only] = slow;
    if (only === undefined || slow.length > 1) continue;
    const id = domain.hosts[only.host]?.id ?? "";
    const most = hosts.get(id) ?? 0;
    found.set(id, Math.min(found.get(id) ?? most, soundLog(log - shapeOf(shares))));
  }
  return found;
}

/** Of each host in these sets, by id: that of its fastest set. */
function strengths(
  domain: BandwidthDomain,
  sets: readonly RackedSet[],
  shapeOf: (shares: Candidate) => number,
): ReadonlyMap<string, number> {
  const hosts = new Map<string, number>();
  const nearFirst = [...sets].sort((a, b) => Number(a.racks > 1) - Number(b.racks > 1));
  for (const { shares, log, racks } of nearFirst) {
    // A set over several racks shows no host to be slow, but as fast as it was.
    const strength = soundLog(log - shapeOf(shares));
    for (const { host } of shares) {
      const id = domain.hosts[host]?.id ?? "";
      const before = hosts.get(id);
      if (before === undefined && racks > 1) continue;
      hosts.set(id, Math.max(before ?? -Infinity, strength));
    }
  }
  return hosts;
}

/** Logarithm of the factor of a set. */
export function factorLog(
  domain: BandwidthDomain,
  factors: FabricFactors,
  shares: Candidate,
): number {
  const { racks, lone = 0, ways } = factors;
  const names = rackNames(domain, shares);
  const all = names.length;
  const own = weakest(domain, factors, shares);
  if (ways !== undefined && all > 1)
    return Math.log(expectedPart(ways, names, Math.exp(own))) + LEAST_RACK_LOG * Math.log2(all);
  const isLone = lone !== 0 && all > 1 && hasLoneHost(domain, shares);
  return own + rackLog(racks, all) + (isLone ? lone : 0);
}

/** What a gang keeps that nothing but the way out of this host's rack holds up: 0 to 1; 1 where racks are not told apart. */
export const wayOutOf = (
  { hosts }: BandwidthDomain,
  { ways }: FabricFactors,
  host: number,
): number => (ways === undefined ? 1 : expectedPart(ways, [hosts[host]?.rack ?? ""]));

function rackLog(logs: readonly number[], racks: number): number {
  const at = Math.min(logs.length - 1, Math.log2(Math.max(1, racks)));
  const [below = 0, above = below] = [logs[Math.floor(at)], logs[Math.ceil(at)]];
  return below + (above - below) * (at - Math.floor(at));
}

/** Of a host alone. */
export const strengthLog = (
  domain: BandwidthDomain,
  { hosts, unmeasured }: FabricFactors,
  host: number,
): number => hosts[domain.hosts[host]?.id ?? ""] ?? unmeasured;

function weakest(domain: BandwidthDomain, factors: FabricFactors, shares: Candidate): number {
  let least = 0;
  for (const { host } of shares) least = Math.min(least, strengthLog(domain, factors, host));
  return least;
}

const soundLog = (log: number): number => (log > -NOISE ? 0 : Math.max(LEAST_LOG, log));

const stepsOf = (racks: number): number => Math.ceil(Math.log2(Math.max(1, racks)));

export const racksOf = (domain: BandwidthDomain, shares: Candidate): number =>
  rackNames(domain, shares).length;

/** Whether some rack gives one host only. Hosts without a rack are in one. */
function hasLoneHost({ hosts }: BandwidthDomain, shares: Candidate): boolean {
  const counts = new Map<string | undefined, number>();
  for (const { host } of shares) {
    const rack = hosts[host]?.rack;
    counts.set(rack, (counts.get(rack) ?? 0) + 1);
  }
  return [...counts.values()].includes(1);
}

interface LoggedSet {
  readonly shares: Candidate;
  readonly log: number;
}

/** What a sound set of this shape has. */
function shapeLogs(sets: readonly LoggedSet[]): (shares: Candidate) => number {
  const byShape = new Map<string, number[]>();
  for (const { shares, log } of sets) {
    const key = shapeKey(shares);
    byShape.set(key, [...(byShape.get(key) ?? []), log]);
  }
  const perCard = quantileOf(
    sets.map(({ shares, log }) => log - Math.log(fewestOf(shares))),
    SHAPE_QUANTILE,
  );
  return (shares) => {
    const alike = byShape.get(shapeKey(shares)) ?? [];
    return alike.length >= LEAST_OF_SHAPE
      ? quantileOf(alike, SHAPE_QUANTILE)
      : perCard + Math.log(fewestOf(shares));
  };
}

const shapeKey = (shares: Candidate): string =>
  `${String(fewestOf(shares))}/${shares.length > 2 ? "more" : "two"}`;

const fewestOf = (shares: Candidate): number =>
  shares.reduce((fewest, { mask }) => Math.min(fewest, popCount(mask)), Infinity);

interface RackLoss {
  readonly racks: number;
  readonly isLone: boolean;
  readonly log: number;
}

/** What one doubling of the racks costs at least: traffic of others meets a gang there that was not there when sets were measured. */
const LEAST_RACK_LOG = -0.01;

/** Falling, from 0 for one rack. Sets with a lone host tell only where there are no others. */
function rackLogs(sets: readonly RackLoss[]): readonly number[] {
  const most = sets.reduce((steps, { racks }) => Math.max(steps, stepsOf(racks)), 0);
  const logs = [0];
  for (let steps = 1; steps <= most; steps += 1) {
    const all = sets.filter(({ racks }) => stepsOf(racks) === steps);
    const paired = all.filter(({ isLone }) => !isLone);
    const own = (paired.length > 0 ? paired : all).map(({ log }) => log);
    const before = (logs[steps - 1] ?? 0) + LEAST_RACK_LOG;
    logs.push(own.length === 0 ? before : Math.min(before, quantileOf(own, 0.5)));
  }
  return logs;
}

/** Sets that show what a lone host costs, and how much it must be in the middle, and half of that in three of four: noise of paths is not that. */
const LEAST_LONE = 5;
const LEAST_LONE_LOG = -0.2;
const MOST_LONE = 0.75;

/**
 * Where NVLink joins the hosts of a rack, a gang leaves the rack by the cards of all its hosts there, so a rack with a single host has few cards
 * for all.
 */
function loneLog(sets: readonly RackLoss[], racks: readonly number[]): number | undefined {
  const logs = sets
    .filter(({ racks: over, isLone }) => over > 1 && isLone)
    .map(({ racks: over, log }) => log - rackLog(racks, over));
  const lone = quantileOf(logs, 0.5);
  const isSure =
    logs.length >= LEAST_LONE &&
    lone <= LEAST_LONE_LOG &&
    quantileOf(logs, MOST_LONE) <= LEAST_LONE_LOG / 2;
  return isSure ? lone : undefined;
}

function quantileOf(values: readonly number[], at: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.round(at * (sorted.length - 1))] ?? 0;
}
