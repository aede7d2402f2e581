/**
 * @file Watches a fleet while it is simulated: what each tenant held and was entitled to at each instant, and which free GPUs idled.
 *
 * *Entitlement*: the weighted max-min share of the fleet, from each tenant's demand, which is what it holds and waits for. *Idle*: GPUs that
 * are free while a waiting job has a free place as compact as its size allows. Whether a job may have reserved GPUs is no matter, because
 * every job of these traces could give them back. What is set apart for a job that others are evicted for is *vacating*, like the GPUs of
 * the leases that are given up. *By count*: free while any waiting job wants no more GPUs than are free, wherever they lie.
 * Both are integrated from one cycle to the next; a fleet stands still between them. Times after the last arrival do not count, because
 * the fleet only runs empty then. Cost: O(leases + requests) a cycle, and a placement for each size that waits.
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { gpuCountOf, popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { waterFill } from "../../scheduling/fairness/due-share.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { leastSpread } from "../../scheduling/placement/least-spread.ts";
import type { PlaceHost } from "../../scheduling/placement/place-policy.ts";
import { bestThroughput, openSpread, throughputOf } from "../../scheduling/placement/spread.ts";
import { schedulerBut, type OpenScheduler } from "../../simulator/scheduler.ts";

export interface Watched {
  /** GPU-seconds by tenant. */
  readonly held: ReadonlyMap<string, number>;
  readonly entitled: ReadonlyMap<string, number>;
  /** GPU-seconds of the fleet until the last arrival. */
  readonly total: number;
  readonly idle: number;
  readonly idleByCount: number;
  readonly vacating: number;
  /** Kept free for inference. */
  readonly reserve: number;
}

const EPSILON = 1e-9;

export interface Watch {
  readonly openScheduler: OpenScheduler;
  readonly watched: () => Watched;
}

export function watching(
  open: OpenScheduler,
  { fleet, untilMs }: { readonly fleet: FleetShape; readonly untilMs: number },
): Watch {
  const held = new Map<string, number>();
  const entitled = new Map<string, number>();
  const sums = { total: 0, idle: 0, idleByCount: 0, vacating: 0, reserve: 0 };
  const look = lookerAt(fleet);
  let sinceMs: number | undefined;
  let seen: Instant | undefined;

  function pass(nowMs: number): void {
    if (seen === undefined || sinceMs === undefined) return;
    const seconds = (Math.min(nowMs, untilMs) - sinceMs) / 1_000;
    if (seconds <= 0) return;
    for (const [tenant, gpus] of seen.held) add(held, tenant, gpus * seconds);
    for (const [tenant, gpus] of seen.entitled) add(entitled, tenant, gpus * seconds);
    sums.total += look.gpus * seconds;
    sums.idle += seen.idle * seconds;
    sums.idleByCount += seen.idleByCount * seconds;
    sums.vacating += seen.vacating * seconds;
    sums.reserve += seen.reserve * seconds;
  }

  return {
    watched: () => ({ held, entitled, ...sums }),
    openScheduler: (ledger) => {
      const scheduler = open(ledger);
      return schedulerBut(scheduler, {
        // The inbox is folded, and nothing is decided yet: until here the fleet was as the last plan left it.
        decide(nowMs, ports) {
          pass(nowMs);
          sinceMs = nowMs;
          return scheduler.decide(nowMs, ports);
        },
        apply(event) {
          const applied = scheduler.apply(event);
          if (event.kind === "plan" && event.nowMs <= untilMs) seen = look.at(scheduler.ledger);
          return applied;
        },
      });
    },
  };
}

const add = (sums: Map<string, number>, key: string, more: number): void => {
  sums.set(key, (sums.get(key) ?? 0) + more);
};

interface Instant {
  readonly held: ReadonlyMap<string, number>;
  readonly entitled: ReadonlyMap<string, number>;
  readonly idle: number;
  readonly idleByCount: number;
  readonly vacating: number;
  readonly reserve: number;
}

function lookerAt(fleet: FleetShape): {
  readonly gpus: number;
  readonly at: (ledger: Ledger) => Instant;
} {
  const spread = openSpread(fleet);
  const hosts = fleet.clusters.flatMap((cluster) => cluster.hosts);
  const placeOf = new Map<HostId, number>(hosts.map(({ id }, place) => [id, place]));
  const whole = Int32Array.from(hosts, ({ gpuCount }) => 2 ** gpuCount - 1);
  const gpus = hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const largestHost = hosts.reduce((most, { gpuCount }) => Math.max(most, gpuCount), 0);
  const free = new Int32Array(whole.length);
  const weights = new Map<string, number>(fleet.tenants.map(({ id, weight }) => [id, weight]));
  return {
    gpus,
    at({ leases, requests, reservations }) {
      free.set(whole);
      const held = new Map<string, number>();
      const demand = new Map<string, number>();
      let vacating = 0;
      let reserve = 0;
      for (const lease of leases.values()) {
        const count = gpuCountOf(lease.gpus);
        add(held, lease.tenant, count);
        add(demand, lease.tenant, count);
        if (lease.eviction !== undefined) vacating += count;
        take(lease.gpus);
      }
      for (const { gpus: set, kind } of reservations?.values() ?? []) {
        if (kind === "headroom") reserve += take(set);
        else if (kind !== "backfill") vacating += take(set);
      }
      const sizes = new Set<number>();
      for (const { tenant, gang } of requests.values()) {
        add(demand, tenant, gang.gpus);
        sizes.add(gang.gpus);
      }
      const demands = [...demand].map(([key, wanted]) => ({
        key,
        weight: weights.get(key) ?? 1,
        gpus: wanted,
      }));
      let count = 0;
      for (const mask of free) count += popCount(mask);
      const isByCount = count > 0 && [...sizes].some((size) => size <= count);
      const isIdle = isByCount && [...sizes].some(hasCompactPlace);
      return {
        held,
        entitled: waterFill(demands, gpus),
        idle: isIdle ? count : 0,
        idleByCount: isByCount ? count : 0,
        vacating,
        reserve,
      };
    },
  };

  function hasCompactPlace(size: number): boolean {
    let sum = 0;
    let most = 0;
    for (const mask of free) {
      const count = popCount(mask);
      sum += count;
      most = Math.max(most, count);
    }
    if (sum < size) return false;
    if (most >= size) return true;
    if (size <= largestHost) return false;
    const open = hosts.flatMap(({ id }, place): PlaceHost[] => {
      const at = spread.layout.get(id);
      const freeMask = free[place] ?? 0;
      return at === undefined || freeMask === 0 ? [] : [{ at, freeMask }];
    });
    const demand = { gpus: size, maxClusters: 1, isSameHost: false, isSameFabric: false };
    const { gpus: place } = leastSpread(demand, open, { spread });
    return place !== undefined && throughputOf(place, spread) >= bestThroughput(size) - EPSILON;
  }

  /** The GPUs are not free; how many of them were. */
  function take(set: readonly HostGpus[]): number {
    let taken = 0;
    for (const { host, mask } of set) {
      const place = placeOf.get(host) ?? -1;
      const before = free[place] ?? 0;
      taken += popCount(before & mask);
      free[place] = before & ~mask;
    }
    return taken;
  }
}
