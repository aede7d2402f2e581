/**
 * @file What a fleet could give to a request: offers per cluster and GPU type, at four levels of optimism.
 *
 * Hosts that are alike (cluster, type, memory, draw) form a pool whose sums are kept up to date grant by grant, so looking at
 * a request costs O(clusters), not O(hosts). Requests with equal constraints share their offers, which are worked out again only
 * after a grant. Opened once per decision; `occupy` is the only change.
 */

import type { ClusterShape, HostShape } from "../domain/fleet.ts";
import { byCodeUnit, type ClusterId, type HostId, type TenantId } from "../domain/ids.ts";
import type { Constraints } from "../domain/job.ts";
import { popCount, type GangRequest, type HostGpus } from "../domain/lease.ts";
import { fullMask } from "../lib/bits.ts";
import { hindranceOf, isSuitable, shapeOf, type GangShape, type Hindrance } from "./feasibility.ts";
import { indexFleet, type FleetIndex } from "./fleet-index.ts";
import type { Ledger } from "./ledger.ts";
import { gpusWithin, wattsLimit } from "./limits.ts";
import type { PickHost } from "./pick/pick-policy.ts";
import { largestGang, type ClusterOffer } from "./placement/placement-policy.ts";
import { take, usageOf, type Usage } from "./usage.ts";

/**
 * `ever`: every host answers and nothing is leased. `idle`: nothing is leased on the hosts that answer now. `now`: what is free.
 * `unpowered`: what is free, were there no limit on watts.
 */
export type Level = "ever" | "idle" | "now" | "unpowered";

/** No cluster has more types of GPU: keeps ranks unique. */
const MAX_TYPES = 1_000;

export interface Capacity {
  readonly index: FleetIndex;
  readonly usage: Usage;
  readonly pools: readonly Pool[];
  readonly hosts: ReadonlyMap<HostId, { readonly host: PoolHost; readonly pool: Pool }>;
  /** By constraints, as an object where hosts are not avoided, and as JSON: equal ones are often the same object. */
  readonly options: Map<Constraints | string, Options>;
  /** Grows with every change of what is free. */
  version: number;
}

/** What may serve requests with the same constraints, one entry a GPU type, in the fleet's order. */
export interface Options {
  readonly types: readonly TypeOptions[];
}

export interface TypeOptions {
  readonly gpuType: string;
  readonly groups: readonly PoolGroup[];
  readonly shape: GangShape;
  readonly avoided: ReadonlySet<HostId>;
  readonly cache: Partial<Record<Level, CachedOffers>>;
  /** Worked out when it is first asked for. */
  hindered?: Hindered;
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

interface Pool {
  readonly cluster: ClusterShape;
  readonly rank: number;
  readonly gpuType: string;
  readonly gpuWatts: number;
  readonly hosts: readonly PoolHost[];
  readonly ever: Sum;
  readonly idle: Sum;
  free: Sum;
}

interface PoolHost {
  readonly id: HostId;
  readonly gpuCount: number;
  /** Absent where new work may start. */
  readonly hindrance?: Hindrance;
  freeMask: number;
}

interface Sum {
  readonly gpus: number;
  readonly largestHostGpus: number;
}

export function openCapacity(snapshot: Ledger): Capacity {
  const index = indexFleet(snapshot.shape);
  const usage = usageOf(snapshot.leases.values(), index);
  const pools = poolsOf(snapshot, index, usage);
  const hosts = new Map(
    pools.flatMap((pool) => pool.hosts.map((host) => [host.id, { host, pool }] as const)),
  );
  return { index, usage, pools, hosts, options: new Map(), version: 0 };
}

/** Cost: O(pools) for constraints that were seen before, O(hosts) for new ones. */
export function optionsFor(capacity: Capacity, request: GangRequest): Options {
  const { constraints, avoidHosts } = request;
  const known = avoidHosts === undefined ? capacity.options.get(constraints) : undefined;
  if (known !== undefined) return known;
  const key = JSON.stringify([constraints, avoidHosts]);
  const options = capacity.options.get(key) ?? { types: typesFor(capacity, request) };
  capacity.options.set(key, options);
  if (avoidHosts === undefined) capacity.options.set(constraints, options);
  return options;
}

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

/** Of the hosts of the type. Cost: O(hosts of the type), once. */
export const hinderedHosts = (type: TypeOptions): Hindered => (type.hindered ??= hinderedOf(type));

function hinderedOf(type: TypeOptions): Hindered {
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

/** The hosts of one cluster that have free GPUs of the type, in order of their ids. */
export const pickHosts = (type: TypeOptions, cluster: ClusterId): readonly PickHost[] =>
  [...freeHosts(type, cluster)].sort((a, b) => byCodeUnit(a.host, b.host));

/** The same in no order: where one of them is wanted and there are thousands. */
export function freeHosts(type: TypeOptions, cluster: ClusterId): readonly PickHost[] {
  const pools = type.groups.find((group) => group.cluster.id === cluster)?.pools ?? [];
  const free: PickHost[] = [];
  for (const { hosts, gpuWatts } of pools) {
    for (const { id, freeMask, gpuCount } of hosts) {
      if (freeMask === 0 || type.avoided.has(id)) continue;
      free.push({ host: id, freeMask, gpuCount, gpuWatts });
    }
  }
  return free;
}

export const wattsLeft = ({ usage }: Capacity, cluster: ClusterShape): number =>
  wattsLimit(cluster) - (usage.watts.get(cluster.id) ?? 0);

/** Takes the GPUs of a grant. */
export function occupy(capacity: Capacity, tenant: TenantId, gpus: readonly HostGpus[]): void {
  take(capacity.usage, capacity.index, { tenant, gpus });
  const touched = new Set<Pool>();
  for (const { host: id, mask } of gpus) {
    const found = capacity.hosts.get(id);
    if (found === undefined) continue;
    found.host.freeMask &= ~mask;
    touched.add(found.pool);
  }
  for (const pool of touched) pool.free = sumOf(pool.hosts, freeOf);
  capacity.version += 1;
}

function poolsOf(snapshot: Ledger, { clusters }: FleetIndex, usage: Usage): readonly Pool[] {
  const pools: Pool[] = [];
  for (const [at, cluster] of clusters.entries()) {
    const alike = new Map<string, HostShape[]>();
    for (const host of cluster.hosts) {
      const key = `${host.gpuType} ${host.gpuMemoryGiB} ${host.gpuWatts}`;
      const same = alike.get(key);
      if (same === undefined) alike.set(key, [host]);
      else same.push(host);
    }
    const types = [...new Set(cluster.hosts.map(({ gpuType }) => gpuType))];
    for (const shapes of alike.values()) {
      const [first] = shapes;
      if (first === undefined) continue;
      const hosts = shapes.map(({ id, gpuCount }) => {
        const hindrance = hindranceOf(snapshot.hosts.get(id));
        if (hindrance !== undefined) return { id, gpuCount, hindrance, freeMask: 0 };
        const freeMask = fullMask(gpuCount) & ~(usage.taken.get(id) ?? 0);
        return { id, gpuCount, freeMask };
      });
      pools.push({
        cluster,
        rank: at * MAX_TYPES + types.indexOf(first.gpuType),
        gpuType: first.gpuType,
        gpuWatts: first.gpuWatts,
        hosts,
        ever: sumOf(hosts, everOf),
        idle: sumOf(hosts, idleOf),
        free: sumOf(hosts, freeOf),
      });
    }
  }
  return pools;
}

type CountOf = (host: PoolHost) => number;
const everOf: CountOf = ({ gpuCount }) => gpuCount;
const idleOf: CountOf = ({ hindrance, gpuCount }) => (hindrance === undefined ? gpuCount : 0);
const freeOf: CountOf = ({ freeMask }) => popCount(freeMask);

function sumOf(hosts: readonly PoolHost[], countOf: CountOf): Sum {
  let gpus = 0;
  let largestHostGpus = 0;
  for (const host of hosts) {
    const count = countOf(host);
    gpus += count;
    largestHostGpus = Math.max(largestHostGpus, count);
  }
  return { gpus, largestHostGpus };
}

function typesFor({ pools, index }: Capacity, request: GangRequest): readonly TypeOptions[] {
  const { constraints, avoidHosts = [] } = request;
  const avoided = new Set(avoidHosts);
  const suitable = pools.filter(({ hosts }) =>
    hosts.some(({ id }) => {
      const place = index.places.get(id);
      return place !== undefined && isSuitable(request, place);
    }),
  );
  return [...new Set(suitable.map(({ gpuType }) => gpuType))].map((gpuType) => {
    const ofType = suitable.filter((pool) => pool.gpuType === gpuType);
    const groups = [...new Set(ofType.map(({ cluster }) => cluster))].map((cluster) => {
      const own = ofType
        .filter((pool) => pool.cluster === cluster)
        .sort((a, b) => a.gpuWatts - b.gpuWatts);
      return { cluster, rank: own[0]?.rank ?? 0, pools: own };
    });
    return { gpuType, groups, shape: shapeOf(constraints), avoided, cache: {} };
  });
}

function cachedAt(capacity: Capacity, type: TypeOptions, level: Level): CachedOffers {
  const isFixed = level === "ever" || level === "idle";
  const known = type.cache[level];
  if (known !== undefined && (isFixed || known.version === capacity.version)) return known;
  const offers = type.groups.map((group) => offerOf(capacity, type, group, level));
  const fresh = { version: capacity.version, offers, largest: largestGang(type.shape, offers) };
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
  let left =
    level === "unpowered"
      ? Infinity
      : level === "now"
        ? wattsLeft(capacity, cluster)
        : wattsLimit(cluster);
  const most = left;
  let gpus = 0;
  let largestHostGpus = 0;
  for (const pool of pools) {
    const sum = sumAt(pool, level, type.avoided);
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

function sumAt(pool: Pool, level: Level, avoided: ReadonlySet<HostId>): Sum {
  const hosts = avoided.size === 0 ? pool.hosts : pool.hosts.filter(({ id }) => !avoided.has(id));
  if (hosts.length < pool.hosts.length)
    return sumOf(hosts, level === "ever" ? everOf : level === "idle" ? idleOf : freeOf);
  return level === "ever" ? pool.ever : level === "idle" ? pool.idle : pool.free;
}
