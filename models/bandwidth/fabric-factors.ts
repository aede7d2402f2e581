/**
 * @file What sets of a large cluster lose by the hosts and racks that they lie on: factors of bandwidth, found before anything else is learned.
 *
 * A collective runs at the pace of its slowest part. So a set that is as fast as any of its shape shows that all of its hosts are sound, and a
 * host is as fast as the fastest set that it was in: an upper envelope, where a regression on members would blame everyone who was measured
 * beside a slow host. In order:
 *   shape   sets of one rack by the GPU count of the host with fewest, of two hosts and of more: nearly the best of them is the shape's own.
 *   hosts   strength = the best of (bandwidth ÷ shape) over the sets that a host was in, at most 1. An unmeasured host has the mean.
 *   racks   what sets over 2, 3–4, 5–8, … racks lose beyond that: the median, never less with more racks.
 * The factor of a set is that of its weakest host times that of its number of racks. The Transformer learns what is left. Clusters of at
 * most `FEW_HOSTS` hosts have none of this: there all hosts appear in many sets, and host-offsets.ts finds what differs.
 * Cost: O(hosts in samples), and O(hosts) a set.
 */

import type {
  BandwidthDomain,
  BandwidthSample,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../domain/lease/lease.ts";

/** Plain data: it is kept with the parameters. Logarithms, at most 0. */
export interface FabricFactors {
  /** By host id; absent: `unmeasured`. */
  readonly hosts: Readonly<Record<string, number>>;
  readonly unmeasured: number;
  /** By ⌈log2 of the number of racks⌉; beyond the end the last one. */
  readonly racks: readonly number[];
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
  const hosts = new Map<string, number>();
  for (const { shares, log, racks } of sets) {
    // A set over several racks shows no host to be slow, but as fast as it was.
    const strength = soundLog(log - shapeOf(shares));
    for (const { host } of shares) {
      const id = domain.hosts[host]?.id ?? "";
      const before = hosts.get(id);
      if (before === undefined && racks > 1) continue;
      hosts.set(id, Math.max(before ?? -Infinity, strength));
    }
  }
  const all = [...hosts.values()];
  const unmeasured = all.reduce((sum, log) => sum + log, 0) / Math.max(1, all.length);
  const found = { hosts: Object.fromEntries(hosts), unmeasured, racks: [] };
  const lost = sets.map(({ shares, log, racks }) => ({
    racks,
    log: log - shapeOf(shares) - weakest(domain, found, shares),
  }));
  return { ...found, racks: rackLogs(lost) };
}

/** Logarithm of the factor of a set. */
export const factorLog = (
  domain: BandwidthDomain,
  factors: FabricFactors,
  shares: Candidate,
): number =>
  weakest(domain, factors, shares) +
  (factors.racks[Math.min(factors.racks.length - 1, stepsOf(racksOf(domain, shares)))] ?? 0);

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

/** Hosts without a rack are in one. */
export function racksOf({ hosts }: BandwidthDomain, shares: Candidate): number {
  const racks = new Set<string | undefined>();
  for (const { host } of shares) racks.add(hosts[host]?.rack);
  return racks.size;
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

/** Falling, from 0 for one rack. */
function rackLogs(
  sets: readonly { readonly racks: number; readonly log: number }[],
): readonly number[] {
  const most = sets.reduce((steps, { racks }) => Math.max(steps, stepsOf(racks)), 0);
  const logs = [0];
  for (let steps = 1; steps <= most; steps += 1) {
    const own = sets.filter(({ racks }) => stepsOf(racks) === steps).map(({ log }) => log);
    const before = logs[steps - 1] ?? 0;
    logs.push(own.length === 0 ? before : Math.min(before, quantileOf(own, 0.5)));
  }
  return logs;
}

function quantileOf(values: readonly number[], at: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.round(at * (sorted.length - 1))] ?? 0;
}
