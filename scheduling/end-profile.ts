/**
 * @file When GPUs become free that are set apart for nobody, by cluster: one profile for all heads that ask, until something changes.
 *
 * What is set apart for one job has an outlook of its own, which is remembered until a lease changes.
 * Cost: O(hosts + leases · log leases) a profile, O(hosts and leases there) an outlook.
 */

import type { ClusterId } from "../domain/ids.ts";
import { popCount, type HostGpus } from "../domain/lease.ts";
import { hostsOf, type Capacity, type TypeOptions } from "./capacity.ts";
import type { PoolHost } from "./host-pools.ts";

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

/** What is set apart for one job, at one time. */
export interface Outlook {
  /** Of the capacity's leases. */
  readonly version: number;
  /** When the last GPU is free; −∞ when all are. */
  readonly lastEndMs: number;
  /** GPUs that others have, and not on loan. */
  readonly missing: number;
  /** Those on loan: free as soon as they are called in. */
  readonly lent: number;
  readonly clusters: ReadonlyMap<ClusterId, EndProfile>;
}

/** Remembered until a lease changes. Cost: O(hosts and leases there). */
export function outlookOf(gpus: readonly HostGpus[], capacity: Capacity): Outlook {
  const known = capacity.outlooks.get(gpus);
  if (known?.version === capacity.leaseVersion) return known;
  const tallies = new Map<ClusterId, Tally>();
  let lastEndMs = -Infinity;
  let missing = 0;
  let lent = 0;
  for (const { host: id, mask } of gpus) {
    const host = capacity.hosts.get(id);
    if (host === undefined) continue;
    const { id: cluster } = host.pool.cluster;
    const tally = tallies.get(cluster) ?? { free: 0, ends: new Map<number, number>() };
    tallies.set(cluster, tally);
    tally.free += popCount(mask & ~host.leasedMask);
    for (const hold of host.holds.values()) {
      const onLoan = popCount(hold.loanMask & mask);
      lent += onLoan;
      tally.free += onLoan;
      const shared = popCount(hold.mask & mask) - onLoan;
      if (shared === 0) continue;
      missing += shared;
      lastEndMs = Math.max(lastEndMs, hold.endAtMs);
      addEnd(tally, hold.endAtMs, shared);
    }
  }
  const clusters = new Map([...tallies].map(([id, tally]) => [id, profileOf(tally)] as const));
  const outlook = { version: capacity.leaseVersion, lastEndMs, missing, lent, clusters };
  capacity.outlooks.set(gpus, outlook);
  return outlook;
}

export const NOTHING: EndProfile = { free: 0, ends: [] };

/** The GPUs of a host that are free or on loan by then and set apart for nobody, or for oneself. */
export function freeBy(
  { hindrance, fullMask, leasedMask, reservedMask, holds }: PoolHost,
  { atMs, nowMs, ownMask = 0 }: FreeBy,
): number {
  if (hindrance !== undefined) return 0;
  const notMine = reservedMask & ~ownMask;
  let mask = fullMask & ~(leasedMask | notMine);
  for (const hold of holds.values()) {
    const isOver = Math.max(nowMs, hold.endAtMs) <= atMs;
    mask |= (isOver ? hold.mask : hold.loanMask) & ~notMine;
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

export function othersIn(type: TypeOptions, cluster: ClusterId, capacity: Capacity): EndProfile {
  const known = type.profiles.get(cluster);
  if (known?.version === capacity.version) return known.profile;
  const tally: Tally = { free: 0, ends: new Map() };
  for (const { hindrance, freeMask, reservedMask, holds } of hostsOf(type, cluster)) {
    if (hindrance !== undefined) continue;
    tally.free += popCount(freeMask);
    for (const { mask, endAtMs, loanMask } of holds.values()) {
      tally.free += popCount(loanMask & ~reservedMask);
      const gpus = popCount(mask & ~loanMask & ~reservedMask);
      if (gpus > 0) addEnd(tally, endAtMs, gpus);
    }
  }
  const profile = profileOf(tally);
  type.profiles.set(cluster, { version: capacity.version, profile });
  return profile;
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
