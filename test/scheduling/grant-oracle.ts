/**
 * @file An independent reading of the rules, slow and plain: is a set of GPUs allowed for a request, and is there any at all?
 *
 * Shares nothing with `scheduling/` but the types: what it says is the law that `decide` and `apply` are held to.
 */
import type { ClusterShape, HostShape } from "../../domain/fleet/fleet.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { popCount, type GangRequest, type HostGpus } from "../../domain/lease/lease.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

export interface World {
  readonly ledger: Ledger;
  readonly nowMs: number;
  /** Leave out: leases, agents and drains, quotas, the clock. */
  readonly without?: readonly ("leases" | "standings" | "quota" | "clock" | "watts")[];
}

/** Every broken rule of a grant, by a word. */
export function brokenRules(
  request: GangRequest,
  gpus: readonly HostGpus[],
  world: World,
  slots?: number,
): readonly string[] {
  const { ledger } = world;
  const places = gpus.map(({ host, mask }) => ({ mask, ...placeOf(ledger, host) }));
  const broken: string[] = [];
  const rule = (isKept: boolean, name: string): void => {
    if (!isKept) broken.push(name);
  };
  const { constraints, avoidHosts = [], tenant } = request;
  const size = places.reduce((sum, { mask }) => sum + popCount(mask), 0);
  rule((slots !== undefined) === (request.slots !== undefined), "array");
  if (slots === undefined) rule(sizes(request, world).includes(size), "size");
  else {
    rule(size === slots * request.gang.gpus && slots <= (request.slots ?? 0), "size");
    rule(slots === 1 || gpus.length === 1, "split");
  }
  for (const { host, cluster, mask } of places) {
    const status = ledger.hosts.get(host.id);
    rule(mask > 0 && mask < 2 ** host.gpuCount, "mask");
    rule((takenOn(world, host.id) & mask) === 0, "taken");
    rule(has(world, "standings") || (status?.agent !== undefined && !status.isDrained), "standing");
    rule((drainedOn(world, host.id) & mask) === 0, "drained");
    rule(constraints.jurisdictions?.includes(cluster.jurisdiction) ?? true, "jurisdiction");
    rule(constraints.clusters?.includes(cluster.id) ?? true, "cluster");
    rule(constraints.gpuTypes?.includes(host.gpuType) ?? true, "type");
    rule(host.gpuMemoryGiB >= (constraints.gpuMemoryGiB ?? 0), "memory");
    rule(!avoidHosts.includes(host.id), "avoided");
  }
  const clusters = new Set(places.map(({ cluster }) => cluster));
  rule(new Set(places.map(({ host }) => host.id)).size === places.length, "twice");
  rule(new Set(places.map(({ host }) => host.gpuType)).size <= 1, "types");
  rule(clusters.size <= (constraints.maxClusters ?? 1), "clusters");
  rule(!constraints.isSameHost || places.length === 1, "host");
  rule(
    !constraints.isSameFabric ||
      (clusters.size === 1 && [...clusters][0]?.fabricGbps !== undefined),
    "fabric",
  );
  const gpuType = places[0]?.host.gpuType;
  if (gpuType !== undefined && !has(world, "quota"))
    rule(size <= quotaLeft(world, tenant, gpuType), "quota");
  for (const cluster of has(world, "watts") ? [] : clusters) {
    const own = places.filter((place) => place.cluster === cluster);
    const watts = own.reduce((sum, { host, mask }) => sum + popCount(mask) * host.gpuWatts, 0);
    const budget = Math.min(
      cluster.powerBudgetWatts ?? Infinity,
      cluster.coolingBudgetWatts ?? Infinity,
    );
    rule(watts + wattsDrawn(world, cluster) <= budget + 1e-3, "watts");
  }
  return [...new Set(broken)];
}

/** Every way to take GPUs, up to which GPUs of a host: enough, because GPUs of a host are alike. */
export function findGrants(request: GangRequest, world: World): readonly (readonly HostGpus[])[] {
  const hosts = world.ledger.shape.clusters.flatMap((cluster) => cluster.hosts);
  let partial: readonly (readonly HostGpus[])[] = [[]];
  for (const { id, gpuCount } of hosts) {
    const free = [...Array(gpuCount).keys()].filter(
      (gpu) => ((takenOn(world, id) | drainedOn(world, id)) & (1 << gpu)) === 0,
    );
    partial = partial.flatMap((gpus) => [
      gpus,
      ...free.map((_, at) => [
        ...gpus,
        { host: id, mask: free.slice(0, at + 1).reduce((mask, gpu) => mask | (1 << gpu), 0) },
      ]),
    ]);
  }
  return partial.filter(
    (gpus) => gpus.length > 0 && brokenRules(request, gpus, world).length === 0,
  );
}

const drainedOn = (world: World, host: HostId): number =>
  has(world, "standings")
    ? 0
    : (world.ledger.hosts.get(host)?.gpuDrains ?? []).reduce((all, { mask }) => all | mask, 0);

/** What a gang on these GPUs is worth by the sites that it lies in: GPUs × throughput, by the paper's figures. */
export function worthOf(gpus: readonly HostGpus[], { ledger }: Pick<World, "ledger">): number {
  const size = sizeOf(gpus);
  if (size <= 1) return size;
  const places = gpus.map(({ host }) => placeOf(ledger, host));
  const touched = new Set(places.map(({ cluster }) => cluster)).size;
  const gpuType = places[0]?.host.gpuType;
  const counts = ledger.shape.clusters
    .map(({ hosts }) =>
      hosts.reduce((sum, host) => sum + (host.gpuType === gpuType ? host.gpuCount : 0), 0),
    )
    .sort((a, b) => b - a);
  let least = 0;
  for (let open = size; open > 0; least += 1) open -= counts[least] ?? Infinity;
  // Every cluster of these tests is a site of its own.
  const step = (1 / 0.34 - 1 / 0.62) ** 2 / (1 / 0.62 - 1 / 0.94);
  return size / (1 / 0.94 + (step * (touched - least)) / least);
}

export const sizeOf = (gpus: readonly HostGpus[]): number =>
  gpus.reduce((sum, { mask }) => sum + popCount(mask), 0);

/** Those that are whole, or make the progress of the smallest size at its best, or what the idle hosts of the type could give. */
export function worthwhile(
  grants: readonly (readonly HostGpus[])[],
  request: GangRequest,
  world: World,
): readonly (readonly HostGpus[])[] {
  const { gpus, min, shapes } = request.gang;
  const smaller = grants.filter((grant) => sizeOf(grant) < gpus);
  if (smaller.length === 0) return grants;
  const least = Math.min(gpus, ...(shapes ?? [min]).filter((size) => size >= min));
  const typeOf = (grant: readonly HostGpus[]): string | undefined =>
    grant[0] && placeOf(world.ledger, grant[0].host).host.gpuType;
  const idle = findGrants(request, { ...world, without: ["leases"] });
  const floorOf = (gpuType: string | undefined): number =>
    Math.min(
      least > 1 ? least * 0.94 : least,
      Math.max(
        ...idle.filter((grant) => typeOf(grant) === gpuType).map((grant) => worthOf(grant, world)),
      ),
    );
  return grants.filter(
    (grant) => sizeOf(grant) === gpus || worthOf(grant, world) >= floorOf(typeOf(grant)) - 1e-9,
  );
}

/** Sizes that are acceptable at the time of the world. */
function sizes({ gang, requestedAtMs }: GangRequest, world: World): readonly number[] {
  const { gpus, min, timeoutMs, shapes } = gang;
  if (!has(world, "clock") && world.nowMs < requestedAtMs + timeoutMs) return [gpus];
  const all = Array.from({ length: gpus - min + 1 }, (_, at) => min + at);
  return shapes === undefined ? all : all.filter((size) => size === gpus || shapes.includes(size));
}

function quotaLeft(world: World, tenant: string, gpuType: string): number {
  const rule = world.ledger.shape.tenants.find(({ id }) => id === tenant);
  if (rule === undefined) return Infinity;
  const named = Object.keys(rule.quota);
  const isNamed = named.includes(gpuType);
  if (!isNamed && !named.includes("*")) return Infinity;
  const counts = (type: string): boolean => (isNamed ? type === gpuType : !named.includes(type));
  const held = taken(world)
    .filter(
      (part) => part.tenant === tenant && counts(placeOf(world.ledger, part.host).host.gpuType),
    )
    .reduce((sum, { mask }) => sum + popCount(mask), 0);
  return (rule.quota[isNamed ? gpuType : "*"] ?? 0) + rule.borrowingLimit - held;
}

const wattsDrawn = (world: World, cluster: ClusterShape): number =>
  taken(world)
    .map(({ host, mask }) => ({ mask, place: placeOf(world.ledger, host) }))
    .filter(({ place }) => place.cluster === cluster)
    .reduce((sum, { mask, place }) => sum + popCount(mask) * place.host.gpuWatts, 0);

const takenOn = (world: World, host: HostId): number =>
  taken(world).reduce((mask, part) => (part.host === host ? mask | part.mask : mask), 0);

function taken(world: World): readonly (HostGpus & { readonly tenant: string })[] {
  if (has(world, "leases")) return [];
  return [...world.ledger.leases.values()].flatMap(({ tenant, gpus, state, vacatingHosts = [] }) =>
    gpus
      .filter(({ host }) => state !== "vacating" || vacatingHosts.includes(host))
      .map((part) => ({ ...part, tenant })),
  );
}

const has = ({ without = [] }: World, what: NonNullable<World["without"]>[number]): boolean =>
  without.includes(what);

function placeOf(
  ledger: Ledger,
  id: HostId,
): { readonly host: HostShape; readonly cluster: ClusterShape } {
  for (const cluster of ledger.shape.clusters) {
    for (const host of cluster.hosts) if (host.id === id) return { host, cluster };
  }
  throw new Error(`no host ${id}`);
}
