/**
 * @file What a fleet could give to a request: offers per cluster and GPU type, at six levels of optimism.
 *
 * Looking at a request costs O(clusters), not O(hosts): pools of alike hosts keep their sums (host-pools.ts). Requests with equal
 * constraints share their offers, which are worked out again only after a change. Opened from a ledger, then kept up to date by
 * what changes (capacity-changes.ts).
 */

import type { ClusterShape } from "../domain/fleet.ts";
import type { ClusterId, HostId } from "../domain/ids.ts";
import type { Constraints } from "../domain/job.ts";
import type { HostGpus } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { noteLease, noteReservation } from "./capacity-changes.ts";
import type { HeadSearch } from "./better-heads.ts";
import type { EndProfile, Outlook } from "./end-profile.ts";
import { isSuitable, shapeOf, type GangShape, type Hindrance } from "./feasibility.ts";
import { indexFleet, type FleetIndex, type WattsBudget } from "./fleet-index.ts";
import {
  gpusIn,
  largestHost,
  openPools,
  type Pool,
  type PoolHost,
  type Respect,
} from "./host-pools.ts";
import type { Ledger } from "./ledger.ts";
import { forbiddingWindow, gpusWithin, wattsLimit } from "./limits.ts";
import { largestGang, type ClusterOffer } from "./placement/placement-policy.ts";
import { openSpread, type FleetSpread } from "./placement/spread.ts";
import { reservedOf, type Reserved } from "./reserved.ts";
import { rivalOn, usageOf, type Usage } from "./usage.ts";

export {
  endAt,
  markOf,
  returnTo,
  noteGrant,
  noteLease,
  noteReservation,
  noteStanding,
  undoGrant,
  type ContentMark,
  type FreshGrant,
} from "./capacity-changes.ts";

/**
 * `ever`: every host answers and nothing is leased. `idle`: nothing is leased on the hosts that answer now. `reservable`: the same
 * without what is set apart for others. `unleased`: what is free, set apart or not. `unpowered`: the same were there no limit on
 * watts. `now`: what is free and set apart for nobody.
 */
export type Level = "ever" | "idle" | "reservable" | "unleased" | "unpowered" | "now";

/** What the offers of a level depend on; those of `ever` on nothing that changes. */
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

export interface Capacity {
  readonly index: FleetIndex;
  readonly usage: Usage;
  readonly spread: FleetSpread;
  readonly pools: readonly Pool[];
  readonly hosts: ReadonlyMap<HostId, PoolHost>;
  readonly reserved: Reserved;
  /** By cluster, and by budget of site and rack: what GPUs will draw that are set apart and in no lease. */
  readonly keptWatts: Map<string, number>;
  /** By constraints, as JSON, and by the object, because equal ones are often the same object. */
  readonly options: Map<string, Options>;
  readonly optionsOf: Map<Constraints, Options>;
  /** Of what is set apart. */
  readonly outlooks: WeakMap<readonly HostGpus[], Outlook>;
  /** For whom is set apart: the last search for something better. */
  readonly searches: WeakMap<readonly HostGpus[], HeadSearch>;
  /** Whether what is set apart may serve requests with such constraints, by the hosts as they are. */
  readonly usable: WeakMap<readonly HostGpus[], UsableNote>;
  /** Budgets of sites, by site. */
  readonly sites: ReadonlyMap<string, WattsBudget>;
  lastOptions: number;
  /** Names what is leased, set apart and in service now: the same name, the same content. No two contents share one. */
  version: number;
  /** The same without what is set apart. */
  leaseVersion: number;
  /** The same of hosts alone, and what hinders them. */
  hostVersion: number;
  /** The last name that was given. */
  lastVersion: number;
}

interface UsableNote {
  readonly options: Options;
  readonly hostVersion: number;
  readonly isUsable: boolean;
}

/** What may serve requests with the same constraints, one entry a GPU type, in the fleet's order. */
export interface Options {
  /** Unique among the options of one capacity; absent when they are those of one request at one time. */
  readonly number?: number;
  readonly types: readonly TypeOptions[];
}

export interface TypeOptions {
  readonly gpuType: string;
  readonly groups: readonly PoolGroup[];
  readonly shape: GangShape;
  readonly avoided: ReadonlySet<HostId>;
  /** Where it may not start now: a job of its kind is there, or maintenance is near. */
  readonly closed: ReadonlySet<HostId>;
  readonly cache: Partial<Record<Level, CachedOffers>>;
  /** By cluster; undefined stands for all. */
  readonly hosts: Map<ClusterId | undefined, readonly PoolHost[]>;
  /** Of a version of the capacity. */
  readonly profiles: Map<ClusterId, { readonly version: number; readonly profile: EndProfile }>;
}

interface CachedOffers {
  readonly version: number;
  readonly offers: readonly ClusterOffer[];
  readonly largest: number;
}

interface PoolGroup {
  readonly cluster: ClusterShape;
  readonly rank: number;
  /** Least draw first, so that what fits into the watts is counted exactly. */
  readonly pools: readonly Pool[];
}

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
    optionsOf: new Map(),
    outlooks: new WeakMap(),
    searches: new WeakMap(),
    usable: new WeakMap(),
    lastOptions: 0,
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
  const anew = () => ({ closed, cache: {}, hosts: new Map(), profiles: new Map() });
  return { types: options.types.map((type) => ({ ...type, ...anew() })) };
}

function knownOptions(capacity: Capacity, request: PendingRequest): Options {
  const { constraints, avoidHosts } = request;
  const known = avoidHosts === undefined ? capacity.optionsOf.get(constraints) : undefined;
  if (known !== undefined) return known;
  if (capacity.options.size >= MAX_OPTIONS) capacity.options.clear();
  const key = JSON.stringify(avoidHosts === undefined ? constraints : [constraints, avoidHosts]);
  const options = capacity.options.get(key) ?? {
    number: (capacity.lastOptions += 1),
    types: typesFor(capacity, request),
  };
  capacity.options.set(key, options);
  if (avoidHosts === undefined) {
    if (capacity.optionsOf.size >= MAX_CONSTRAINTS) capacity.optionsOf.clear();
    capacity.optionsOf.set(constraints, options);
  }
  return options;
}

/** Avoided hosts make many: no more are remembered. */
const MAX_OPTIONS = 2_000;
/** Objects, mostly equal to others. */
const MAX_CONSTRAINTS = 20_000;

/** What the clusters offer in one type, in order of rank. */
export const offersAt = (
  capacity: Capacity,
  type: TypeOptions,
  level: Level,
): readonly ClusterOffer[] => cachedAt(capacity, type, level).offers;

/** The largest gang of one type. */
export const largestAt = (capacity: Capacity, type: TypeOptions, level: Level): number =>
  cachedAt(capacity, type, level).largest;

/** Hosts on which nothing new may start, by what hinders it, in the fleet's order. */
export type Hindered = ReadonlyMap<Hindrance, readonly HostId[]>;

/** Of the hosts of the type. Cost: O(hosts of the type). */
export function hinderedHosts(type: TypeOptions): Hindered {
  const hindered = new Map<Hindrance, HostId[]>();
  for (const { pools } of type.groups) {
    for (const { id, hindrance } of pools.flatMap(({ hosts }) => hosts)) {
      if (hindrance === undefined || type.avoided.has(id)) continue;
      const alike = hindered.get(hindrance);
      if (alike === undefined) hindered.set(hindrance, [id]);
      else alike.push(id);
    }
  }
  return hindered;
}

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

/** What may be drawn in the cluster beyond what leases draw, and beyond what is kept for reservations; not its site's. */
export const wattsLeft = ({ usage, keptWatts }: Capacity, cluster: ClusterShape): number =>
  wattsLimit(cluster) - (usage.watts.get(cluster.id) ?? 0) - (keptWatts.get(cluster.id) ?? 0);

/** The same of a site or rack. */
export const budgetLeft = (
  { usage, keptWatts }: Capacity,
  { name, limitWatts }: WattsBudget,
): number => limitWatts - (usage.budgets.get(name) ?? 0) - (keptWatts.get(name) ?? 0);

function typesFor({ pools, index }: Capacity, request: PendingRequest): readonly TypeOptions[] {
  const { constraints, avoidHosts = [] } = request;
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
      profiles: new Map(),
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
  const offers = type.groups.map((group) => offerOf(capacity, type, group, level));
  const fresh = { version, offers, largest: largestGang(type.shape, offers) };
  type.cache[level] = fresh;
  return fresh;
}

function offerOf(
  capacity: Capacity,
  type: TypeOptions,
  group: PoolGroup,
  level: Level,
): ClusterOffer {
  const { cluster, rank, pools } = group;
  const most = wattsAt(capacity, cluster, level);
  let left = most;
  let gpus = 0;
  let largestHostGpus = 0;
  for (const pool of pools) {
    const sum = sumOf(pool, level, type);
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
  pool: Pool,
  level: Level,
  { avoided, closed }: TypeOptions,
): { readonly gpus: number; readonly largestHostGpus: number } {
  const respect = RESPECTS[level];
  const isClosable = level !== "ever" && level !== "idle" && closed.size > 0;
  const tally = pool.tallies[respect];
  if (avoided.size === 0 && !isClosable)
    return { gpus: tally.gpus, largestHostGpus: largestHost(tally) };
  let gpus = 0;
  let largestHostGpus = 0;
  for (const host of pool.hosts) {
    if (avoided.has(host.id) || (isClosable && closed.has(host.id))) continue;
    const count = gpusIn(host, respect);
    gpus += count;
    largestHostGpus = Math.max(largestHostGpus, count);
  }
  return { gpus, largestHostGpus };
}
