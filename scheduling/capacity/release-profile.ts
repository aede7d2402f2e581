/**
 * @file When GPUs become free: those of a cluster that are reserved for nobody, and those that are reserved for one job.
 *
 * Cost: O(hosts + leases · log leases) a profile, O(hosts and leases there) an outlook.
 */

import type { ClusterId } from "../../domain/values/ids.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { Capacity, TypeOptions } from "./capacity-state.ts";
import { hostsOf } from "./capacity.ts";
import { hostsOn } from "./capacity-changes.ts";
import type { Pool, PoolHost } from "./host-pools.ts";

/** GPUs by when they are free at the latest. */
export interface EndProfile {
  readonly free: number;
  /** Ascending. */
  readonly ends: readonly End[];
}

interface End {
  readonly atMs: number;
  readonly gpus: number;
}

/** When GPUs that are reserved for one job become free. */
interface Outlook {
  /** When the last GPU is free; −∞ when all are. */
  readonly lastEndMs: number;
  /** Leased GPUs, those in opportunistic use aside. */
  readonly missing: number;
  /** GPUs in opportunistic use, which are free as soon as they are recalled. */
  readonly opportunistic: number;
  readonly clusters: ReadonlyMap<ClusterId, EndProfile>;
}

/**
 * An answer about a list of GPUs, which does not change, is kept until a lease on one of its hosts does. Each change of a host has a version that is
 * greater than all before it, trials included, so equal greatest versions are of unchanged hosts.
 */
export function untilLeasesChange<Answer>(
  find: (gpus: readonly HostGpus[], capacity: Capacity) => Answer,
): (gpus: readonly HostGpus[], capacity: Capacity) => Answer {
  const answers = new WeakMap<readonly HostGpus[], KeptAnswer<Answer>>();
  return (gpus, capacity) => {
    const { leaseVersion } = capacity;
    const known = answers.get(gpus);
    const isOwn = known?.capacity === capacity;
    if (isOwn && known.leaseVersion === leaseVersion) return known.answer;
    const changedAt = changedAtOn(gpus, capacity);
    if (isOwn && known.changedAt === changedAt) {
      known.leaseVersion = leaseVersion;
      return known.answer;
    }
    const answer = find(gpus, capacity);
    answers.set(gpus, { capacity, leaseVersion, changedAt, answer });
    return answer;
  };
}

/** The last change of a lease or a condition on any of these hosts. */
function changedAtOn(gpus: readonly HostGpus[], capacity: Capacity): number {
  let lastAt = 0;
  for (const host of hostsOn(capacity, gpus))
    if (host !== undefined && host.leasesChangedAt > lastAt) lastAt = host.leasesChangedAt;
  return lastAt;
}

interface KeptAnswer<Answer> {
  readonly capacity: Capacity;
  leaseVersion: number;
  readonly changedAt: number;
  readonly answer: Answer;
}

/** Cost: O(hosts and leases there), O(1) until a lease changes. */
export const outlookOf = untilLeasesChange(outlookNow);

function outlookNow(gpus: readonly HostGpus[], capacity: Capacity): Outlook {
  const tallies = new Map<ClusterId, Tally>();
  let lastEndMs = -Infinity;
  let missing = 0;
  let opportunistic = 0;
  for (const { host: id, mask } of gpus) {
    const host = capacity.hosts.get(id);
    if (host === undefined) continue;
    const { id: cluster } = host.pool.cluster;
    const tally = tallies.get(cluster) ?? { free: 0, ends: new Map<number, number>() };
    tallies.set(cluster, tally);
    tally.free += popCount(mask & ~host.leasedMask);
    for (const hold of host.holds.values()) {
      const usedOpportunistically = popCount(hold.opportunisticMask & mask);
      opportunistic += usedOpportunistically;
      tally.free += usedOpportunistically;
      const shared = popCount(hold.mask & mask) - usedOpportunistically;
      if (shared === 0) continue;
      missing += shared;
      lastEndMs = Math.max(lastEndMs, hold.endAtMs);
      addEnd(tally, hold.endAtMs, shared);
    }
  }
  const clusters = new Map([...tallies].map(([id, tally]) => [id, profileOf(tally)] as const));
  return { lastEndMs, missing, opportunistic, clusters };
}

export const NOTHING: EndProfile = { free: 0, ends: [] };

/** The GPUs of a host that are free or in opportunistic use by then and reserved for no other job. */
export function freeBy(host: PoolHost, { atMs, nowMs, ownMask = 0 }: FreeBy): number {
  const usable = host.serviceMask & ~(host.reservedMask & ~ownMask);
  let mask = usable & ~host.leasedMask;
  if (mask === usable) return mask;
  for (const hold of host.holds.values()) {
    const isOver = Math.max(nowMs, hold.endAtMs) <= atMs;
    mask |= (isOver ? hold.mask : hold.opportunisticMask) & usable;
  }
  return mask;
}

export interface FreeBy {
  readonly atMs: number;
  readonly nowMs: number;
  readonly ownMask?: number;
}

/** When so many of all of them are free that are not so now; infinite when there are not so many. */
export function endOf(count: number, profiles: readonly EndProfile[]): number {
  const at = new Array<number>(profiles.length).fill(0);
  for (let left = count; ;) {
    let next: End | undefined;
    let from = 0;
    for (const [index, { ends }] of profiles.entries()) {
      const end = ends[at[index] ?? 0];
      if (end === undefined || (next !== undefined && end.atMs >= next.atMs)) continue;
      next = end;
      from = index;
    }
    if (next === undefined) return Infinity;
    left -= next.gpus;
    if (left <= 0) return next.atMs;
    at[from] = (at[from] ?? 0) + 1;
  }
}

/** By the hosts of a cluster, which are one list for one type and its constraints. */
const profiles = new WeakMap<readonly PoolHost[], KeptProfile>();

interface KeptProfile {
  readonly changedAt: number;
  readonly pools: ReadonlySet<Pool>;
  readonly profile: EndProfile;
}

/** The GPUs of one cluster that are reserved for nobody. Cost: O(pools) until one of its hosts changes. */
export function unreservedIn(type: TypeOptions, cluster: ClusterId): EndProfile {
  const hosts = hostsOf(type, cluster);
  const known = profiles.get(hosts);
  const pools = known?.pools ?? new Set(hosts.map(({ pool }) => pool));
  let lastAt = 0;
  for (const { changedAt } of pools) lastAt = Math.max(lastAt, changedAt);
  if (known?.changedAt === lastAt) return known.profile;
  const profile = unreservedOn(hosts);
  profiles.set(hosts, { changedAt: lastAt, pools, profile });
  return profile;
}

/** The same of any hosts. Cost: O(hosts + leases · log leases). */
export function unreservedOn(hosts: readonly PoolHost[]): EndProfile {
  const tally: Tally = { free: 0, ends: new Map() };
  // Hosts of one gang stand side by side: their GPUs are added up before they are entered.
  let sameEndMs = NaN;
  let sameGpus = 0;
  for (const host of hosts) {
    const unreserved = host.serviceMask & ~host.reservedMask;
    if (unreserved === 0) continue;
    tally.free += popCount(host.freeMask);
    for (const { mask, endAtMs, opportunisticMask } of host.holds.values()) {
      tally.free += popCount(opportunisticMask & unreserved);
      const gpus = popCount(mask & ~opportunisticMask & unreserved);
      if (gpus === 0) continue;
      if (endAtMs !== sameEndMs) {
        if (sameGpus > 0) addEnd(tally, sameEndMs, sameGpus);
        sameEndMs = endAtMs;
        sameGpus = 0;
      }
      sameGpus += gpus;
    }
  }
  if (sameGpus > 0) addEnd(tally, sameEndMs, sameGpus);
  return profileOf(tally);
}

interface Tally {
  free: number;
  readonly ends: Map<number, number>;
}

function addEnd({ ends }: Tally, atMs: number, gpus: number): void {
  ends.set(atMs, (ends.get(atMs) ?? 0) + gpus);
}

const profileOf = ({ free, ends }: Tally): EndProfile => ({
  free,
  ends: [...ends].map(([atMs, gpus]) => ({ atMs, gpus })).sort((a, b) => a.atMs - b.atMs),
});
