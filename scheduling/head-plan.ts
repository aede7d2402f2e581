/**
 * @file Which GPUs a request that cannot start is to wait for: those on which it is expected to end first, and well placed among those.
 *
 * A GPU is free now, or when the lease that has it ends by its time limit; leases without one end after all others, the oldest
 * first. For each cluster (or host, where the gang must lie on one) the time is found at which enough of its GPUs are free. A gang
 * that accepts less waits for as many as each cluster can give: few soon or more later, whichever lets it end first (expected-run.ts);
 * for others that is what is free the soonest. Ties in the fleet's order. Then the placement policy chooses among all that is free there by then.
 * GPUs that are set apart for others are not looked at. Who waits for others already names them: the last GPU of any plan is
 * free at the very time that was found, so what cannot be better is known before anything is placed.
 * Cost: O(GPUs · log GPUs), and the policy's own; O(GPUs) where nothing is better than what is waited for.
 */

import { byCodeUnit, type HostId } from "../domain/ids.ts";
import { gpuCountOf, popCount, type HostGpus, type Reservation } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import {
  hostsOf,
  largestAt,
  offersAt,
  optionsFor,
  wattsLeft,
  type Options,
  type TypeOptions,
} from "./capacity.ts";
import { freeBy, outlookOf } from "./end-profile.ts";
import { lowestBits } from "../lib/bits.ts";
import { expectedRunMs } from "./expected-run.ts";
import { largestAcceptable, shapeOf } from "./feasibility.ts";
import { headWays } from "./head-ways.ts";
import { gpusIn, UNKNOWN_END_MS, type PoolHost } from "./host-pools.ts";
import { prospectsOf, type Prospect, type Scene } from "./judge.ts";
import { WATTS_EPSILON } from "./limits.ts";
import type { PlaceHost, PlacePolicy } from "./placement/place-policy.ts";
import { byMostGpus } from "./placement/placement-policy.ts";
import { isWorthIt, type SizeOffer } from "./productive-size.ts";

export interface HeadPlan {
  readonly gpus: readonly HostGpus[];
  /** When the last of them is free, as far as anybody has said; not before now. */
  readonly readyAtMs: number;
  /** Those that others have now, and not on loan. */
  readonly missing: number;
  /** Those that are on loan to others. */
  readonly lent: number;
}

/** Whether it is free sooner; or as soon, and fewer of its GPUs are others'. */
export const isBetter = (
  a: Pick<HeadPlan, "readyAtMs" | "missing">,
  b: Pick<HeadPlan, "readyAtMs" | "missing">,
): boolean => a.readyAtMs < b.readyAtMs || (a.readyAtMs === b.readyAtMs && a.missing < b.missing);

/**
 * Undefined when what is set apart for others leaves too little, or nothing that is better than `known`. What was the request's own is
 * taken off before.
 */
export function planHead(
  request: PendingRequest,
  scene: Scene,
  place: PlacePolicy,
  known?: HeadPlan,
): HeadPlan | undefined {
  let best: (Way & { readonly type: TypeOptions }) | undefined;
  for (const prospect of prospectsOf(request, scene)) {
    const way = firstToEnd(request, prospect, scene, known?.readyAtMs);
    if (way !== undefined && (best === undefined || way.endMs < best.endMs))
      best = { ...way, type: prospect.type };
  }
  if (best === undefined) return undefined;
  const { atMs, size } = best;
  if (known !== undefined) {
    const { nowMs } = scene;
    const free = best.hosts.reduce(
      (sum, host) => sum + popCount(freeBy(host, { atMs: -Infinity, nowMs })),
      0,
    );
    if (!isBetter({ readyAtMs: atMs, missing: Math.max(0, size - free) }, known)) return undefined;
  }
  const hosts = best.hosts.flatMap((host): PlaceHost[] => {
    const freeMask = freeBy(host, { atMs, nowMs: scene.nowMs });
    return freeMask === 0 ? [] : [{ at: host.at, freeMask }];
  });
  const demand = { ...shapeOf(request.constraints), gpus: size };
  const { gpus } = place(demand, hosts, scene.capacity);
  if (known !== undefined && gpus !== undefined) {
    const masks = Uint32Array.from(best.hosts, (host) =>
      freeBy(host, { atMs, nowMs: scene.nowMs }),
    );
    scene.capacity.searches.set(known.gpus, { hosts: best.hosts, size, masks, gpus });
  }
  if (gpus === undefined || !isWorthIt(request, gpus, [best.type], scene)) return undefined;
  return prospectOf(gpus, scene);
}

/**
 * Some of the GPUs of the place that could hold it: of those clusters (or hosts) the one where the most is set apart for nobody. When
 * what is set apart for others is free for it, the next cycle completes it. Undefined when there is nothing.
 */
export function planPart(request: PendingRequest, scene: Scene): HeadPlan | undefined {
  const { capacity, nowMs } = scene;
  let best:
    { readonly hosts: readonly PoolHost[]; readonly size: number; most: number } | undefined;
  for (const { type, limit } of prospectsOf(request, scene)) {
    const idle = largestAt(capacity, type, "idle");
    const size = largestAcceptable(request, Math.min(idle, limit), nowMs);
    if (size === undefined) continue;
    for (const hosts of placesFor(type, size, scene)) {
      const most = hosts.reduce((sum, host) => sum + popCount(unreservedMask(host)), 0);
      if (most > (best?.most ?? 0)) best = { hosts, size, most };
    }
  }
  if (best === undefined) return undefined;
  const gpus: HostGpus[] = [];
  let open = best.size;
  for (const host of best.hosts) {
    const mask = lowestBits(unreservedMask(host), open);
    if (mask === 0) continue;
    open -= popCount(mask);
    gpus.push({ host: host.id, mask });
  }
  const sorted = gpus.sort((a, b) => byCodeUnit(a.host, b.host));
  return { ...prospectOf(sorted, scene), readyAtMs: UNKNOWN_END_MS };
}

/** Sets of hosts that could hold so many GPUs if nothing were leased or set apart. */
function placesFor(
  type: TypeOptions,
  size: number,
  { capacity }: Scene,
): readonly (readonly PoolHost[])[] {
  const { isSameHost, isSameFabric, maxClusters } = type.shape;
  const offers = offersAt(capacity, type, "idle").filter(
    ({ hasFabric }) => hasFabric || !isSameFabric,
  );
  if (isSameHost)
    return hostsOf(type)
      .filter((host) => gpusIn(host, "idle") >= size)
      .map((host) => [host]);
  const single = offers.filter(({ gpus }) => gpus >= size);
  if (single.length > 0 || maxClusters <= 1)
    return single.map(({ cluster }) => hostsOf(type, cluster));
  const several = byMostGpus(offers).slice(0, maxClusters);
  return [several.flatMap(({ cluster }) => hostsOf(type, cluster))];
}

const unreservedMask = ({ hindrance, fullMask, reservedMask }: PoolHost): number =>
  hindrance === undefined ? fullMask & ~reservedMask : 0;

/** How soon GPUs that are set apart are free. */
export function prospectOf(gpus: readonly HostGpus[], { capacity, nowMs }: Scene): HeadPlan {
  const { lastEndMs, missing, lent } = outlookOf(gpus, capacity);
  return { gpus, readyAtMs: Math.max(nowMs, lastEndMs), missing, lent };
}

/** Whether the request may still wait for these GPUs. */
export function isUsable(
  request: PendingRequest,
  { gpus }: Pick<Reservation, "gpus">,
  { capacity, nowMs }: Scene,
): boolean {
  const size = gpuCountOf(gpus);
  if (largestAcceptable(request, size, nowMs) !== size) return false;
  const options = optionsFor(capacity, request, nowMs);
  if (!isWorthIt(request, gpus, options.types, { capacity, nowMs })) return false;
  const { hostVersion } = capacity;
  const known = capacity.usable.get(gpus);
  if (known?.options === options && known.hostVersion === hostVersion) return known.isUsable;
  const isGood = isUsableBy(options, request, { gpus, capacity });
  capacity.usable.set(gpus, { options, hostVersion, isUsable: isGood });
  return isGood;
}

function isUsableBy(
  { types }: Options,
  request: PendingRequest,
  { gpus, capacity }: Pick<Reservation, "gpus"> & Pick<Scene, "capacity">,
): boolean {
  const [first] = gpus;
  const gpuType = first && capacity.hosts.get(first.host)?.pool.gpuType;
  const type = types.find((each) => each.gpuType === gpuType);
  if (type === undefined) return false;
  const isOpen = (id: HostId): boolean => {
    const host = capacity.hosts.get(id);
    return (
      host !== undefined &&
      host.hindrance === undefined &&
      !type.avoided.has(id) &&
      !type.closed.has(id) &&
      type.groups.some(({ pools }) => pools.includes(host.pool))
    );
  };
  const clusters = new Set(gpus.map(({ host }) => capacity.hosts.get(host)?.pool.cluster.id));
  const { maxClusters, isSameHost, isSameFabric } = shapeOf(request.constraints);
  const hasFabric = [...clusters].every((id) =>
    capacity.index.clusters.some(
      (cluster) => cluster.id === id && cluster.fabricGbps !== undefined,
    ),
  );
  return (
    gpus.every(({ host }) => isOpen(host)) &&
    clusters.size <= maxClusters &&
    (!isSameHost || gpus.length === 1) &&
    (!isSameFabric || hasFabric)
  );
}

/**
 * Until when others may run on GPUs that are set apart: undefined when nobody can say, or when watts are what is missing. What the
 * GPUs will draw has to be kept already.
 */
export function lendUntilOf(
  { gpus, readyAtMs }: HeadPlan,
  { capacity, nowMs }: Scene,
): number | undefined {
  if (readyAtMs <= nowMs || readyAtMs >= UNKNOWN_END_MS) return undefined;
  const clusters = new Set(gpus.map(({ host }) => capacity.hosts.get(host)?.pool.cluster));
  const isPowered = [...clusters].every(
    (cluster) => cluster !== undefined && wattsLeft(capacity, cluster) >= -WATTS_EPSILON,
  );
  return isPowered ? readyAtMs : undefined;
}

interface Way {
  readonly atMs: number;
  /** When the gang would have ended. */
  readonly endMs: number;
  readonly size: number;
  /** Where that many are free by then. */
  readonly hosts: readonly PoolHost[];
}

/** What is ready later than `latestMs` is left out. */
function firstToEnd(
  request: PendingRequest,
  { type, room }: Prospect,
  scene: Scene,
  latestMs = Infinity,
): Way | undefined {
  const { capacity, nowMs } = scene;
  const offers = offersAt(capacity, type, "reservable");
  const ways = headWays(request, { type, room, offers }, scene);
  if (ways === undefined) return undefined;
  const { whole, inside, across } = ways;
  let best: Way | undefined;
  let isPossible = false;
  const consider = ({ gpus: size, worth }: SizeOffer, hosts: readonly PoolHost[]): void => {
    const runMs = expectedRunMs(request, worth);
    const beforeMs = best === undefined ? latestMs : Math.min(latestMs, best.endMs - runMs);
    const atMs = enoughAtMs(hosts, { size, nowMs, latestMs: beforeMs });
    isPossible ||= atMs !== undefined;
    if (atMs === undefined || atMs > latestMs) return;
    const endMs = atMs + runMs;
    if (best === undefined || endMs < best.endMs) best = { atMs, endMs, size, hosts };
  };
  if (type.shape.isSameHost) {
    for (const { cluster, hasFabric, largestHostGpus } of offers) {
      if ((type.shape.isSameFabric && !hasFabric) || largestHostGpus < whole.gpus) continue;
      for (const host of hostsOf(type, cluster)) consider(whole, [host]);
    }
    return best;
  }
  for (const { size, offer } of inside) consider(size, hostsOf(type, offer.cluster));
  if (!isPossible && across.length > 0)
    consider(
      whole,
      across.flatMap(({ cluster }) => hostsOf(type, cluster)),
    );
  return best;
}

/** When so many GPUs of the hosts are free that are set apart for nobody: never, for all that is known, or `Infinity` for after `latestMs`. */
function enoughAtMs(
  hosts: readonly PoolHost[],
  {
    size,
    nowMs,
    latestMs,
  }: { readonly size: number; readonly nowMs: number; readonly latestMs: number },
): number | undefined {
  let free = 0;
  let later = 0;
  const endsAtMs: number[] = [];
  for (const { hindrance, freeMask, reservedMask, holds } of hosts) {
    if (hindrance !== undefined) continue;
    free += popCount(freeMask);
    for (const { mask, endAtMs, loanMask } of holds.values()) {
      free += popCount(loanMask & ~reservedMask);
      const gpus = popCount(mask & ~loanMask & ~reservedMask);
      if (endAtMs > latestMs) later += gpus;
      else for (let left = gpus; left > 0; left -= 1) endsAtMs.push(endAtMs);
    }
  }
  if (free >= size) return nowMs;
  if (free + endsAtMs.length + later < size) return undefined;
  if (free + endsAtMs.length < size) return Infinity;
  const sorted = Float64Array.from(endsAtMs).sort();
  return Math.max(nowMs, sorted[size - free - 1] ?? Infinity);
}
