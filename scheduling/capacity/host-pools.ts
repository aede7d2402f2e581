/**
 * @file The GPUs of a fleet by host: leased, reserved and available ones, with their sums by pool.
 *
 * Hosts of equal cluster, type, memory, draw and resources form a pool. Every pool counts its hosts by their number of GPUs in each of five respects,
 * so a change of a host costs O(1), and so does the largest host of a pool.
 */

import type { ClusterShape, HostShape } from "../../domain/fleet/fleet.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { GpuNeed } from "../../domain/job/job-resources.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { fullMask } from "../../lib/bits.ts";
import type { ResourceHost } from "../ledger/rules/host-resources.ts";
import { drainedMask } from "../ledger/rules/gpu-drains.ts";
import { hostConditionOf, type HostCondition } from "../ledger/rules/grant-check.ts";
import type { HostStatus } from "../ledger/ledger.ts";
import type { HostLayout, FleetLayout } from "../placement/layout.ts";

export interface Pool {
  readonly cluster: ClusterShape;
  /** Place in the fleet's order of clusters, then of types. */
  readonly rank: number;
  readonly gpuType: string;
  readonly gpuWatts: number;
  /** By host id. */
  readonly hosts: readonly PoolHost[];
  readonly tallies: Readonly<Record<Respect, Tally>>;
  /** The capacity's version at the last change of any of its hosts. */
  changedAt: number;
}

/**
 * `ever`: all GPUs. `idle`: those on which new work may start. Of those, `unleased`: in no lease; `unreserved`: reserved for
 * nobody; `open`: neither.
 */
export type Respect = "ever" | "idle" | "unleased" | "unreserved" | "open";

/** Changes by `changeHost` and `setService` alone, its stamp and that of its pool by capacity-changes.ts. */
export interface PoolHost {
  readonly id: HostId;
  readonly at: HostLayout;
  readonly pool: Pool;
  readonly gpuCount: number;
  readonly fullMask: number;
  /** Absent where new work may start. */
  hostCondition: HostCondition | undefined;
  /** Out of service by themselves, whatever the host's condition. */
  drainedMask: number;
  /** The GPUs on which new work may start, leased or not: of a host that takes nothing new, none. */
  serviceMask: number;
  leasedMask: number;
  reservedMask: number;
  /** What may be taken now: in service, and neither leased nor reserved. */
  freeMask: number;
  /** Where its description states processors or memory. */
  readonly resources: ResourceHost | undefined;
  /** Of `leasedMask`: in no lease, and stranded, because leases hold more than their shares of the host (stranded-gpus.ts). */
  strandedMask: number;
  /** The capacity's version at the last change of its leases or its condition. */
  leasesChangedAt: number;
  /** Who is there, and until when at the latest; by lease, or by a name of the cycle's own for what it grants. */
  readonly holds: Map<string, Hold>;
}

export interface Hold {
  /** With `strandedMask`. */
  readonly mask: number;
  /** GPUs without enough processors or memory for anybody until this ends; absent for none. */
  readonly strandedMask?: number;
  /** What its GPUs take of the host; absent where they take their shares. */
  readonly need?: GpuNeed;
  /** `UNKNOWN_END_MS` and more: nobody said. */
  readonly endAtMs: number;
  /** GPUs that are reserved for a job and used opportunistically by another: reclaimed, they are free at once. */
  readonly opportunisticMask: number;
  /** When it was granted; not yet: infinite. */
  readonly sinceMs: number;
}

/** Ends that nobody knows come after all that are known; among them, who has run for the longest time is first. */
export const UNKNOWN_END_MS = 1e15;

export interface Tally {
  gpus: number;
  /** Hosts by their count of GPUs. */
  readonly hosts: number[];
}

/** The largest count of any host. */
export function largestHost({ hosts }: Tally): number {
  let most = hosts.length - 1;
  while (most > 0 && (hosts[most] ?? 0) === 0) most -= 1;
  return Math.max(0, most);
}

/** No cluster has more types of GPU: keeps ranks unique. */
const MAX_TYPES = 1_000;

export function openPools(
  clusters: readonly ClusterShape[],
  hostStatuses: ReadonlyMap<HostId, HostStatus>,
  layout: FleetLayout,
): readonly Pool[] {
  const pools: Pool[] = [];
  for (const [at, cluster] of clusters.entries()) {
    const alike = new Map<string, HostShape[]>();
    for (const host of cluster.hosts) {
      const key = `${host.gpuType} ${host.gpuMemoryGiB} ${host.gpuWatts} ${host.cpus} ${host.hostMemoryGiB}`;
      const same = alike.get(key);
      if (same === undefined) alike.set(key, [host]);
      else same.push(host);
    }
    const types = [...new Set(cluster.hosts.map(({ gpuType }) => gpuType))];
    for (const shapes of alike.values()) {
      const [first] = shapes;
      if (first === undefined) continue;
      const rank = at * MAX_TYPES + types.indexOf(first.gpuType);
      pools.push(openPool({ cluster, rank, shapes, first }, hostStatuses, layout));
    }
  }
  return pools;
}

function openPool(
  {
    cluster,
    rank,
    shapes,
    first,
  }: {
    readonly cluster: ClusterShape;
    readonly rank: number;
    readonly shapes: readonly HostShape[];
    readonly first: HostShape;
  },
  hostStatuses: ReadonlyMap<HostId, HostStatus>,
  layout: FleetLayout,
): Pool {
  const most = Math.max(...shapes.map(({ gpuCount }) => gpuCount));
  const tally = (): Tally => ({ gpus: 0, hosts: new Array<number>(most + 1).fill(0) });
  const hosts: PoolHost[] = [];
  const pool: Pool = {
    cluster,
    rank,
    gpuType: first.gpuType,
    gpuWatts: first.gpuWatts,
    hosts,
    changedAt: 0,
    tallies: {
      ever: tally(),
      idle: tally(),
      unleased: tally(),
      unreserved: tally(),
      open: tally(),
    },
  };
  for (const shape of shapes) {
    const { id, gpuCount } = shape;
    const at = layout.get(id);
    if (at === undefined) continue;
    const status = hostStatuses.get(id);
    const host: PoolHost = {
      id,
      at,
      pool,
      gpuCount,
      fullMask: fullMask(gpuCount),
      hostCondition: hostConditionOf(status),
      drainedMask: drainedMask(status),
      serviceMask: 0,
      leasedMask: 0,
      reservedMask: 0,
      freeMask: 0,
      resources: shape.cpus === undefined && shape.hostMemoryGiB === undefined ? undefined : shape,
      strandedMask: 0,
      leasesChangedAt: 0,
      holds: new Map(),
    };
    settleService(host);
    count(host, 1);
    hosts.push(host);
  }
  hosts.sort((a, b) => a.at.order - b.at.order);
  return pool;
}

/** GPUs of the host in each respect. */
export function gpusIn(host: PoolHost, respect: Respect): number {
  const { serviceMask } = host;
  switch (respect) {
    case "ever":
      return host.gpuCount;
    case "idle":
      return popCount(serviceMask);
    case "unleased":
      return popCount(serviceMask & ~host.leasedMask);
    case "unreserved":
      return popCount(serviceMask & ~host.reservedMask);
    case "open":
      return popCount(host.freeMask);
  }
}

function settleService(host: PoolHost): void {
  const { hostCondition, fullMask: all, drainedMask: drained, leasedMask, reservedMask } = host;
  host.serviceMask = hostCondition === undefined ? all & ~drained : 0;
  host.freeMask = host.serviceMask & ~(leasedMask | reservedMask);
}

/** Set apart and in no lease: the GPUs for which watts are kept. */
export const keptMask = ({ fullMask: all, leasedMask, reservedMask }: PoolHost): number =>
  reservedMask & ~leasedMask & all;

export type HostChange = Partial<Pick<PoolHost, "leasedMask" | "reservedMask">>;

/** The whole cost of a change of leases and reservations, so only what has changed is counted anew. */
export function changeHost(
  host: PoolHost,
  { leasedMask = host.leasedMask, reservedMask = host.reservedMask }: HostChange,
): void {
  const { serviceMask: all, leasedMask: wasLeased, reservedMask: wasReserved } = host;
  host.leasedMask = leasedMask;
  host.reservedMask = reservedMask;
  if (all === 0) return;
  const { unleased, unreserved, open } = host.pool.tallies;
  const wasFree = host.freeMask;
  host.freeMask = all & ~(leasedMask | reservedMask);
  if (leasedMask !== wasLeased) move(unleased, all & ~wasLeased, all & ~leasedMask);
  if (reservedMask !== wasReserved) move(unreserved, all & ~wasReserved, all & ~reservedMask);
  if (host.freeMask !== wasFree) move(open, wasFree, host.freeMask);
}

function move(tally: Tally, before: number, after: number): void {
  const from = popCount(before);
  const to = popCount(after);
  if (from === to) return;
  add(tally, from, -1);
  add(tally, to, 1);
}

export function setService(
  host: PoolHost,
  { hostCondition, drainedMask: drained }: Pick<PoolHost, "hostCondition" | "drainedMask">,
): void {
  count(host, -1);
  host.hostCondition = hostCondition;
  host.drainedMask = drained;
  settleService(host);
  count(host, 1);
}

function count(host: PoolHost, sign: 1 | -1): void {
  const { tallies } = host.pool;
  add(tallies.ever, host.gpuCount, sign);
  for (const respect of IN_USE) add(tallies[respect], gpusIn(host, respect), sign);
}

const IN_USE = ["idle", "unleased", "unreserved", "open"] as const;

function add(tally: Tally, gpus: number, sign: 1 | -1): void {
  tally.gpus += sign * gpus;
  tally.hosts[gpus] = (tally.hosts[gpus] ?? 0) + sign;
}
