/**
 * @file The GPUs of a host that nobody can use, because leases there hold more than their shares of its processors or its memory.
 *
 * Nearly all jobs take the share of each of their GPUs (host-resources.ts). So a host on which some take more has free GPUs without a share
 * left; to decisions these GPUs belong to the leases that take too much, and are free when those end. Those that are reserved for nobody go
 * first, the highest first. They are divided among the leases in the order of their names, each up to what it takes beyond its shares.
 * A request that says what it takes looks at the host's real amounts instead (`usableMask`). What it reserves has the GPUs whose shares it
 * takes beside its own, so that what it waits for is there when they are free. Cost: O(leases of the host).
 */

import type { GpuNeed } from "../../domain/job/job-resources.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import { byCodeUnit, type HostId } from "../../domain/values/ids.ts";
import { lowestBits } from "../../lib/bits.ts";
import {
  gpusWithinResources,
  sharesOfGpu,
  type UnevenHosts,
} from "../ledger/rules/host-resources.ts";
import { maskIn } from "../ledger/rules/reservation-index.ts";
import type { Hold, PoolHost, Respect } from "./host-pools.ts";

/** Settles anew which GPUs of the host are stranded; the mask of its leased GPUs with these. */
export function strand(host: PoolHost, uneven: UnevenHosts): number {
  const { holds, resources, fullMask, drainedMask, reservedMask } = host;
  let leased = 0;
  for (const [name, hold] of holds) {
    const own = ownMask(hold);
    leased |= own;
    if (own !== hold.mask) holds.set(name, withStranded(hold, own, 0));
  }
  host.strandedMask = 0;
  if (resources === undefined || !uneven.has(host.id)) return leased;
  const free = fullMask & ~(leased | drainedMask);
  const otherGpus = popCount(leased);
  const usable = gpusWithinResources(resources, { need: undefined, uneven, otherGpus });
  let open = popCount(free) - usable;
  if (open <= 0) return leased;
  const order = [free & ~reservedMask, free & reservedMask].flatMap(bitsDownwards);
  for (const [name, hold] of [...holds].sort(([a], [b]) => byCodeUnit(a, b))) {
    const count = Math.min(open, beyondShares(hold, resources));
    if (count <= 0) continue;
    const mask = order.splice(0, count).reduce((all, bit) => all | bit, 0);
    holds.set(name, withStranded(hold, hold.mask, mask));
    host.strandedMask |= mask;
    open -= count;
  }
  return leased | host.strandedMask;
}

/**
 * The GPUs that a request which says what it takes of hosts may use there, in each respect of host-pools.ts: the lowest, as many as what is left
 * allows beside the shares of reserved GPUs.
 */
export function usableMask(
  host: PoolHost,
  respect: Respect,
  { need, uneven }: { readonly need: GpuNeed; readonly uneven: UnevenHosts },
): number {
  const { resources, fullMask, serviceMask, leasedMask, strandedMask, reservedMask } = host;
  const leased = leasedMask & ~strandedMask;
  const others = { ever: 0, idle: 0, unleased: leased, unreserved: reservedMask };
  const other = respect === "open" ? leased | reservedMask : others[respect];
  const free = (respect === "ever" ? fullMask : serviceMask) & ~other;
  if (resources === undefined) return free;
  const isBesideLeases = respect === "unleased" || respect === "open";
  return lowestBits(
    free,
    gpusWithinResources(resources, {
      need,
      uneven: isBesideLeases ? uneven : NONE,
      otherGpus: popCount(other),
    }),
  );
}

const NONE: UnevenHosts = new Map();

type Hosts = ReadonlyMap<HostId, PoolHost>;

const sharesOn = (hosts: Hosts, host: HostId, need: GpuNeed): number => {
  const resources = hosts.get(host)?.resources;
  return resources === undefined ? 1 : sharesOfGpu(resources, need);
};

/** How many GPUs go with one of the request at least, on any of these hosts. */
export const leastSharesOn = (hosts: readonly PoolHost[], need: GpuNeed | undefined): number =>
  need === undefined
    ? 1
    : Math.min(...hosts.map(({ resources }) => (resources ? sharesOfGpu(resources, need) : 1)));

/** Of GPUs that are free at some time, those on which the request can run with the shares of all of them. */
export const withinShares = (
  { host, mask }: HostGpus,
  hosts: Hosts,
  need: GpuNeed | undefined,
): number =>
  need === undefined
    ? mask
    : lowestBits(mask, Math.floor(popCount(mask) / sharesOn(hosts, host, need) + ROUNDING));

/** The place of a gang without the GPUs that only lend their shares (`withLenders`). */
export const withoutLenders = (
  gpus: readonly HostGpus[],
  hosts: Hosts,
  need: GpuNeed | undefined,
): readonly HostGpus[] =>
  need === undefined
    ? gpus
    : gpus.flatMap((part) => {
        const mask = withinShares(part, hosts, need);
        return mask === 0 ? [] : [{ host: part.host, mask }];
      });

/** The place of a gang, and of the other GPUs that are free then as many as it takes the shares of. */
export const withLenders = (
  gpus: readonly HostGpus[],
  hosts: Hosts,
  { need, free }: { readonly need: GpuNeed | undefined; readonly free: readonly HostGpus[] },
): readonly HostGpus[] =>
  need === undefined
    ? gpus
    : gpus.map(({ host, mask }) => {
        const own = popCount(mask);
        const owners = Math.ceil(own * (sharesOn(hosts, host, need) - 1) - ROUNDING);
        const rest = maskIn(free, host) & ~mask;
        return { host, mask: mask | lowestBits(rest, owners) };
      });

/** Shares are quotients. */
const ROUNDING = 1e-9;

const ownMask = ({ mask, strandedMask = 0 }: Hold): number => mask & ~strandedMask;

function withStranded(
  { strandedMask: _former, ...hold }: Hold,
  own: number,
  strandedMask: number,
): Hold {
  return strandedMask === 0
    ? { ...hold, mask: own }
    : { ...hold, mask: own | strandedMask, strandedMask };
}

/** GPUs of which the lease holds the shares, beside its own. */
function beyondShares(hold: Hold, resources: NonNullable<PoolHost["resources"]>): number {
  if (hold.need === undefined) return 0;
  const gpus = popCount(ownMask(hold));
  return Math.ceil(gpus * (sharesOfGpu(resources, hold.need) - 1) - ROUNDING);
}

function bitsDownwards(mask: number): readonly number[] {
  const bits: number[] = [];
  for (let rest = mask; rest !== 0; rest &= rest - 1) bits.unshift(rest & -rest);
  return bits;
}
