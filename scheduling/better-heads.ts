/**
 * @file Whether a head that waits might do better than with what is set apart for it: asked in every cycle, and mostly it might not.
 *
 * Looked at without taking the head's own GPUs off the capacity: they are added to the profile of what is set apart for nobody, and so
 * the size and the soonest time come out as the search (head-plan.ts) would find them. Where the time is the same, the placement policy
 * decides how many GPUs are others' still; it is a function of what is free by then, so where that is as it was at the last search, its
 * answer is, too. A yes may be wrong, then the search finds out; a no is a no. Cost: O(leases) a head, and O(hosts) where the time is
 * the same; beside the profile.
 */

import type { ClusterShape } from "../domain/fleet.ts";
import type { HostGpus } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { hostsOf, offersAt, type Capacity } from "./capacity.ts";
import { endOf, freeBy, NOTHING, othersIn, outlookOf, type EndProfile } from "./end-profile.ts";
import { expectedRunMs } from "./expected-run.ts";
import { isBetter, prospectOf, type HeadPlan } from "./head-plan.ts";
import { headWays } from "./head-ways.ts";
import type { PoolHost } from "./host-pools.ts";
import { prospectsOf, type Prospect, type Scene } from "./judge.ts";
import { wattsLimit } from "./limits.ts";
import type { ClusterOffer } from "./placement/placement-policy.ts";
import type { SizeOffer } from "./productive-size.ts";

/** What was looked for, with one's own GPUs off the capacity, and found. */
export interface HeadSearch {
  readonly hosts: readonly PoolHost[];
  readonly size: number;
  /** What was free by then, host by host. */
  readonly masks: Uint32Array;
  readonly gpus: readonly HostGpus[];
}

/** `own`: what is set apart for the request, usable, and on the capacity. */
export function mayBeBetter(request: PendingRequest, own: HeadPlan, scene: Scene): boolean {
  const { capacity } = scene;
  let best: Way | undefined;
  for (const prospect of prospectsOf(request, scene)) {
    const way = firstToEnd(request, own, { prospect, scene });
    if (way === "unknown") return true;
    if (way !== undefined && way.endMs < (best?.endMs ?? Infinity)) best = way;
  }
  if (best === undefined) return false;
  if (best.atMs < own.readyAtMs) return true;
  const { size, free } = best;
  if (Math.max(0, size - free) >= own.missing) return false;
  const hosts = best.sets.flatMap(({ hosts: all }) => all);
  const last = capacity.searches.get(own.gpus);
  const isSame =
    last?.size === size &&
    last.hosts.length === hosts.length &&
    isAsItWas(last, { own, hosts, scene });
  return !isSame || isBetter(prospectOf(last.gpus, scene), own);
}

/** Ready no later than what is set apart. */
interface Way {
  readonly atMs: number;
  readonly endMs: number;
  readonly size: number;
  /** GPUs of the sets that are free now. */
  readonly free: number;
  readonly sets: readonly HostSet[];
}

interface HostSet extends ClusterOffer {
  readonly hosts: readonly PoolHost[];
  readonly profiles: readonly EndProfile[];
}

/** As the search itself would find; unknown where watts limit it or one host has to hold the gang. */
function firstToEnd(
  request: PendingRequest,
  own: HeadPlan,
  { prospect, scene }: { readonly prospect: Prospect; readonly scene: Scene },
): Way | "unknown" | undefined {
  const { type, room } = prospect;
  const { capacity, nowMs } = scene;
  if (type.shape.isSameHost || !type.groups.every(({ cluster }) => hasNoLimit(cluster, capacity)))
    return "unknown";
  const { clusters: ofOwn } = outlookOf(own.gpus, capacity);
  const all: HostSet[] = [];
  for (const offer of offersAt(capacity, type, "reservable")) {
    const mine = ofOwn.get(offer.cluster) ?? NOTHING;
    all.push({
      ...offer,
      gpus: offer.gpus + gpusOf(mine),
      hosts: hostsOf(type, offer.cluster),
      profiles: [othersIn(type, offer.cluster, capacity), mine],
    });
  }
  const ways = headWays(request, { type, room, offers: all }, scene);
  if (ways === undefined) return undefined;
  let best: Way | undefined;
  let isPossible = false;
  const consider = ({ gpus: size, worth }: SizeOffer, sets: readonly HostSet[]): void => {
    const profiles = sets.flatMap((set) => set.profiles);
    const free = profiles.reduce((sum, each) => sum + each.free, 0);
    const atMs = free >= size ? nowMs : Math.max(nowMs, endOf(size - free, profiles));
    isPossible ||= atMs < Infinity;
    const endMs = atMs + expectedRunMs(request, worth);
    if (atMs > own.readyAtMs || endMs >= (best?.endMs ?? Infinity)) return;
    best = { atMs, endMs, size, free, sets };
  };
  for (const { size, offer } of ways.inside) consider(size, [offer]);
  if (!isPossible && ways.across.length > 0) consider(ways.whole, ways.across);
  return best;
}

const hasNoLimit = (cluster: ClusterShape, { sites }: Capacity): boolean =>
  wattsLimit(cluster) === Infinity && !sites.has(cluster.site);

const gpusOf = ({ free, ends }: EndProfile): number =>
  ends.reduce((sum, { gpus }) => sum + gpus, free);

function isAsItWas(
  last: HeadSearch,
  {
    own,
    hosts,
    scene,
  }: {
    readonly own: HeadPlan;
    readonly hosts: readonly PoolHost[];
    readonly scene: Scene;
  },
): boolean {
  const { readyAtMs: atMs } = own;
  const mine = ownMasks(own.gpus, scene.capacity);
  return hosts.every(
    (host, at) =>
      host === last.hosts[at] &&
      freeBy(host, { atMs, nowMs: scene.nowMs, ownMask: mine.get(host) ?? 0 }) === last.masks[at],
  );
}

const ownMasks = (gpus: readonly HostGpus[], { hosts }: Capacity): ReadonlyMap<PoolHost, number> =>
  new Map(
    gpus.flatMap(({ host: id, mask }) => {
      const host = hosts.get(id);
      return host === undefined ? [] : [[host, mask] as const];
    }),
  );
