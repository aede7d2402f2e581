/**
 * @file Whether a head that waits might do better than with what is set apart for it: asked in every cycle, and mostly it might not.
 *
 * Looked at without taking the head's own GPUs off the capacity: they are added to the profile of what is set apart for nobody. Times
 * are exact for a gang that cannot shrink now, and never too late for any. Where the time is the same, the placement policy
 * decides how many GPUs are others' still; it is a function of what is free by then, so where that is as it was at the last search, its
 * answer is, too. A yes may be wrong, then the search finds out; a no is a no. Cost: O(leases) a head, and O(hosts of a cluster)
 * where the time is the same; beside the profile.
 */

import type { HostGpus } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { hostsOf, type Capacity } from "./capacity.ts";
import { endOf, freeBy, NOTHING, othersIn, outlookOf } from "./end-profile.ts";
import { smallestSize } from "./feasibility.ts";
import { isBetter, prospectOf, type HeadPlan } from "./head-plan.ts";
import type { PoolHost } from "./host-pools.ts";
import { leastSizeNow, prospectsOf, type Scene } from "./judge.ts";

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
  const { capacity, nowMs } = scene;
  const size = leastSizeNow(request, nowMs);
  const { clusters: ofOwn } = outlookOf(own.gpus, capacity);
  let same: { readonly hosts: readonly PoolHost[]; readonly free: number } | undefined;
  for (const { type } of prospectsOf(request, scene)) {
    if (type.shape.maxClusters > 1) return true;
    for (const { cluster } of type.groups) {
      const others = othersIn(type, cluster.id, capacity);
      const mine = ofOwn.get(cluster.id) ?? NOTHING;
      const free = others.free + mine.free;
      const atMs = free >= size ? nowMs : Math.max(nowMs, endOf(size - free, others, mine));
      if (atMs < own.readyAtMs) return true;
      if (atMs > own.readyAtMs) continue;
      if (type.shape.isSameHost && Math.max(0, size - free) < own.missing) return true;
      same ??= { hosts: hostsOf(type, cluster.id), free };
    }
  }
  if (same === undefined || Math.max(0, size - same.free) >= own.missing) return false;
  const last = capacity.searches.get(own.gpus);
  const isExact = size === request.gang.gpus && smallestSize(request.gang) === size;
  if (!isExact || last?.size !== size || last.hosts !== same.hosts) return true;
  return !isAsItWas(last, own, scene) || isBetter(prospectOf(last.gpus, scene), own);
}

function isAsItWas({ hosts, masks }: HeadSearch, own: HeadPlan, scene: Scene): boolean {
  const { readyAtMs: atMs } = own;
  const mine = ownMasks(own.gpus, scene.capacity);
  return hosts.every(
    (host, at) =>
      freeBy(host, { atMs, nowMs: scene.nowMs, ownMask: mine.get(host) ?? 0 }) === masks[at],
  );
}

const ownMasks = (gpus: readonly HostGpus[], { hosts }: Capacity): ReadonlyMap<PoolHost, number> =>
  new Map(
    gpus.flatMap(({ host: id, mask }) => {
      const host = hosts.get(id);
      return host === undefined ? [] : [[host, mask] as const];
    }),
  );
