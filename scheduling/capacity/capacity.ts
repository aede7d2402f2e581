/**
 * @file The offers of a fleet to a request, per cluster and GPU type, at six levels of optimism.
 *
 * A request costs O(clusters), not O(hosts): pools of equal hosts keep their sums (host-pools.ts). Requests with equal constraints share
 * their offers, which are computed again only after a change. Opened from a ledger, then updated change by change (capacity-changes.ts).
 */

import type { ClusterShape } from "../../domain/fleet/fleet.ts";
import type { GpuNeed } from "../../domain/job/job-resources.ts";
import type { ClusterId, HostId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { noteLease, noteReservation } from "./capacity-changes.ts";
import type {
  CachedOffers,
  Capacity,
  Level,
  Options,
  PoolGroup,
  TypeOptions,
} from "./capacity-state.ts";
import { isSuitable, shapeOf, type Outage } from "../ledger/rules/grant-check.ts";
import { indexFleet, type WattsBudget } from "../ledger/rules/fleet-index.ts";
import {
  gpusIn,
  largestHost,
  openPools,
  type Pool,
  type PoolHost,
  type Respect,
} from "./host-pools.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { forbiddingWindow, gpusWithin, wattsLimit } from "../ledger/rules/limits.ts";
import { largestGang, type ClusterOffer } from "../placement/placement-policy.ts";
import { usableMask } from "./stranded-gpus.ts";
import { openSpread } from "../placement/spread.ts";
import { reservedOf } from "../ledger/rules/reservation-index.ts";
import { rivalOn, usageOf } from "../ledger/rules/usage.ts";

/** The version on which the offers of a level depend; those of `ever` never change. */
const versionAt = (capacity: Capacity, level: Level): number => {
  switch (level) {
    case "ever":
      return 0;
    case "idle":
      return capacity.hostVersion;
    case "unleased":
    case "unpowered":
      return capacity.leaseVersion;
    case "reservable":
    case "now":
      return capacity.version;
  }
};

const RESPECTS: Readonly<Record<Level, Respect>> = {
  ever: "ever",
  idle: "idle",
  reservable: "unreserved",
  unleased: "unleased",
  unpowered: "unleased",
  now: "open",
};

export function openCapacity(ledger: Ledger): Capacity {
  const index = indexFleet(ledger.shape);
  const spread = openSpread(ledger.shape);
  const pools = openPools(index.clusters, ledger.hosts, spread.layout);
  const capacity: Capacity = {
    index,
    spread,
    usage: usageOf([], index),
    pools,
    hosts: new Map(pools.flatMap((pool) => pool.hosts.map((host) => [host.id, host] as const))),
    reserved: reservedOf([]),
    keptWatts: new Map(),
    sites: new Map(
      index.clusters.flatMap(({ site }) => {
        const budget = index.budgets.find(({ name }) => name === `site ${site}`);
        return budget === undefined ? [] : [[site, budget] as const];
      }),
    ),
    options: new Map(),
    numbers: new Map(),
    numberOf: new WeakMap(),
    gangs: new WeakMap(),
    hostsOf: new WeakMap(),
    version: 0,
    leaseVersion: 0,
    hostVersion: 0,
    lastVersion: 0,
  };
  for (const lease of ledger.leases.values()) noteLease(capacity, undefined, lease);
  for (const reservation of ledger.reservations?.values() ?? [])
    noteReservation(capacity, undefined, reservation);
  return capacity;
}

/** Cost: O(1) for constraints that were seen before, O(hosts) for new ones, and where hosts are closed to this request alone. */
export function optionsFor(capacity: Capacity, request: PendingRequest, nowMs: number): Options {
  const options = knownOptions(capacity, request);
  if (request.constraints.antiAffinity === undefined && !capacity.index.hasWindows) return options;
  const closed = new Set<HostId>();
  for (const { id } of options.types.flatMap((type) => hostsOf(type))) {
    const { windows = [] } = capacity.index.places.get(id) ?? {};
    if (
      rivalOn(capacity.usage, id, request) !== undefined ||
      forbiddingWindow(request, windows, nowMs) !== undefined
    )
      closed.add(id);
  }
  if (closed.size === 0 && request.constraints.antiAffinity === undefined) return options;
  const anew = () => ({ closed, cache: {}, hosts: new Map() });
  return { types: options.types.map((type) => ({ ...type, ...anew() })) };
}

/** `optionsFor` without the options: what tells the constraints of requests apart. */
export const optionsNumber = (
  capacity: Capacity,
  request: PendingRequest,
  nowMs: number,
): number | undefined =>
  request.constraints.antiAffinity === undefined && !capacity.index.hasWindows
    ? numberOf(capacity, request)
    : optionsFor(capacity, request, nowMs).number;

function numberOf(capacity: Capacity, request: PendingRequest): number {
  const { constraints, avoidHosts } = request;
  const named = avoidHosts === undefined ? constraints : request;
  const known = capacity.numberOf.get(named);
  if (known !== undefined) return known;
  const { numbers } = capacity;
  const key = JSON.stringify(avoidHosts === undefined ? constraints : [constraints, avoidHosts]);
  const number = numbers.get(key) ?? numbers.size + 1;
  numbers.set(key, number);
  capacity.numberOf.set(named, number);
  return number;
}

function knownOptions(capacity: Capacity, request: PendingRequest): Options {
  const number = numberOf(capacity, request);
  const known = capacity.options.get(number);
  if (known !== undefined) return known;
  if (capacity.options.size >= MAX_OPTIONS) capacity.options.clear();
  const options = { number, types: typesFor(capacity, request) };
  capacity.options.set(number, options);
  return options;
}

/** Avoided hosts make many: no more are remembered. */
const MAX_OPTIONS = 2_000;

/** What the clusters offer in one type, in order of rank. */
export const offersAt = (
  capacity: Capacity,
  type: TypeOptions,
  level: Level,
): readonly ClusterOffer[] => cachedAt(capacity, type, level).offers;

/** The largest gang of one type. */
export const largestAt = (capacity: Capacity, type: TypeOptions, level: Level): number =>
  cachedAt(capacity, type, level).largest;

/** Hosts on which nothing new may start, or not on all GPUs, by what hinders it, in the fleet's order. */
export type HostsByOutage = ReadonlyMap<Outage, readonly HostId[]>;

/** Of the hosts of the type. Cost: O(hosts of the type). */
export function hinderedHosts(type: TypeOptions): HostsByOutage {
  const hostsByOutage = new Map<Outage, HostId[]>();
  for (const { pools } of type.groups) {
    for (const { id, hostCondition, drainedMask } of pools.flatMap(({ hosts }) => hosts)) {
      const outage = hostCondition ?? (drainedMask === 0 ? undefined : "gpus-drained");
      if (outage === undefined || type.avoided.has(id)) continue;
      const alike = hostsByOutage.get(outage);
      if (alike === undefined) hostsByOutage.set(outage, [id]);
      else alike.push(id);
    }
  }
  return hostsByOutage;
}

/** Free GPUs on hosts that accept new work, as if no lease held more than its share of a host's processors and memory. */
export function largestUnmetered(type: TypeOptions): number {
  const offers = type.groups.map(({ cluster, rank, pools }): ClusterOffer => {
    const counts = pools.flatMap(({ hosts }) => hosts).map((host) => idleGpus(type, host));
    return {
      cluster: cluster.id,
      gpuType: type.gpuType,
      gpus: counts.reduce((sum, count) => sum + count, 0),
      largestHostGpus: Math.max(0, ...counts),
      hasFabric: cluster.fabricGbps !== undefined,
      rank,
    };
  });
  return largestGang(type.shape, offers);
}

/** GPUs of the type in no lease, on hosts that accept new work. */
export const idleGpusOf = (type: TypeOptions): number =>
  hostsOf(type).reduce((sum, host) => sum + idleGpus(type, host), 0);

const idleGpus = ({ avoided, closed }: TypeOptions, host: PoolHost): number =>
  avoided.has(host.id) || closed.has(host.id)
    ? 0
    : popCount(host.serviceMask & ~(host.leasedMask & ~host.strandedMask));

/** The hosts of the type, in the fleet's order of clusters: of one cluster, or of all. Cost: O(hosts) once for each. */
export function hostsOf(type: TypeOptions, cluster?: ClusterId): readonly PoolHost[] {
  const known = type.hosts.get(cluster);
  if (known !== undefined) return known;
  const { avoided, closed, groups } = type;
  const found = groups
    .filter((group) => cluster === undefined || group.cluster.id === cluster)
    .flatMap(({ pools }) => pools.flatMap(({ hosts }) => hosts))
    .filter(({ id }) => !avoided.has(id) && !closed.has(id));
  type.hosts.set(cluster, found);
  return found;
}

/** What each GPU of the request takes of its host, where it says so and any host says what it has. */
export const needIn = (
  { index }: Pick<Capacity, "index">,
  { constraints }: Pick<PendingRequest, "constraints">,
): GpuNeed | undefined => (index.hasResources ? constraints.resources : undefined);

/** What may be drawn in the cluster beyond what leases draw, and beyond what is kept for reservations; not its site's. */
export const wattsLeft = ({ usage, keptWatts }: Capacity, cluster: ClusterShape): number =>
  wattsLimit(cluster) - (usage.watts.get(cluster.id) ?? 0) - (keptWatts.get(cluster.id) ?? 0);

/** The same of a site or rack. */
export const budgetLeft = (
  { usage, keptWatts }: Capacity,
  { name, limitWatts }: WattsBudget,
): number => limitWatts - (usage.budgets.get(name) ?? 0) - (keptWatts.get(name) ?? 0);

function typesFor(capacity: Capacity, request: PendingRequest): readonly TypeOptions[] {
  const { pools, index } = capacity;
  const { constraints, avoidHosts = [] } = request;
  const need = needIn(capacity, request);
  const suitable = pools.filter(({ hosts }) =>
    hosts.some(({ id }) => {
      const place = index.places.get(id);
      return place !== undefined && isSuitable(request, place);
    }),
  );
  const avoided = new Set([...avoidHosts, ...unnamedHosts(suitable, constraints.hosts)]);
  return [...new Set(suitable.map(({ gpuType }) => gpuType))].map((gpuType) => {
    const ofType = suitable.filter((pool) => pool.gpuType === gpuType);
    const groups = [...new Set(ofType.map(({ cluster }) => cluster))].map((cluster) => {
      const own = ofType
        .filter((pool) => pool.cluster === cluster)
        .sort((a, b) => a.gpuWatts - b.gpuWatts);
      return { cluster, rank: own[0]?.rank ?? 0, pools: own };
    });
    return {
      gpuType,
      groups,
      shape: shapeOf(constraints),
      avoided,
      closed: NO_HOSTS,
      cache: {},
      hosts: new Map(),
      ...(need !== undefined && { need }),
    };
  });
}

/** The hosts of a pool are alike but for their names: a request that names hosts keeps off the others. */
function unnamedHosts(
  pools: readonly Pool[],
  names: readonly HostId[] | undefined,
): readonly HostId[] {
  if (names === undefined) return [];
  const named = new Set(names);
  return pools.flatMap(({ hosts }) => hosts.map(({ id }) => id)).filter((id) => !named.has(id));
}

const NO_HOSTS: ReadonlySet<HostId> = new Set();

function cachedAt(capacity: Capacity, type: TypeOptions, level: Level): CachedOffers {
  const known = type.cache[level];
  const version = versionAt(capacity, level);
  if (known?.version === version) return known;
  const offers = type.groups.map((group) => offerOf(capacity, group, { type, level }));
  const fresh = { version, offers, largest: largestGang(type.shape, offers) };
  type.cache[level] = fresh;
  return fresh;
}

function offerOf(
  capacity: Capacity,
  group: PoolGroup,
  { type, level }: { readonly type: TypeOptions; readonly level: Level },
): ClusterOffer {
  const { cluster, rank, pools } = group;
  const most = wattsAt(capacity, cluster, level);
  let left = most;
  let gpus = 0;
  let largestHostGpus = 0;
  for (const pool of pools) {
    const sum = sumOf(capacity, pool, { type, level });
    const count = Math.min(sum.gpus, gpusWithin(left, pool.gpuWatts));
    gpus += count;
    left -= count * pool.gpuWatts;
    largestHostGpus = Math.max(
      largestHostGpus,
      Math.min(sum.largestHostGpus, gpusWithin(most, pool.gpuWatts)),
    );
  }
  return {
    cluster: cluster.id,
    gpuType: type.gpuType,
    gpus,
    largestHostGpus,
    hasFabric: cluster.fabricGbps !== undefined,
    rank,
  };
}

function wattsAt(capacity: Capacity, cluster: ClusterShape, level: Level): number {
  const site = capacity.sites.get(cluster.site);
  const { usage } = capacity;
  switch (level) {
    case "unpowered":
      return Infinity;
    case "now":
      return Math.min(
        wattsLeft(capacity, cluster),
        site === undefined ? Infinity : budgetLeft(capacity, site),
      );
    case "unleased":
      return Math.min(
        wattsLimit(cluster) - (usage.watts.get(cluster.id) ?? 0),
        site === undefined ? Infinity : site.limitWatts - (usage.budgets.get(site.name) ?? 0),
      );
    case "ever":
    case "idle":
    case "reservable":
      return Math.min(wattsLimit(cluster), site?.limitWatts ?? Infinity);
  }
}

function sumOf(
  { usage: { uneven } }: Capacity,
  pool: Pool,
  { type: { avoided, closed, need }, level }: { readonly type: TypeOptions; readonly level: Level },
): { readonly gpus: number; readonly largestHostGpus: number } {
  const respect = RESPECTS[level];
  const isClosable = level !== "ever" && level !== "idle" && closed.size > 0;
  const tally = pool.tallies[respect];
  if (avoided.size === 0 && !isClosable && need === undefined)
    return { gpus: tally.gpus, largestHostGpus: largestHost(tally) };
  let gpus = 0;
  let largestHostGpus = 0;
  for (const host of pool.hosts) {
    if (avoided.has(host.id) || (isClosable && closed.has(host.id))) continue;
    const count =
      need === undefined
        ? gpusIn(host, respect)
        : popCount(usableMask(host, respect, { need, uneven }));
    gpus += count;
    largestHostGpus = Math.max(largestHostGpus, count);
  }
  return { gpus, largestHostGpus };
}
