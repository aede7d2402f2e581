/**
 * @file The GPUs of a gang by a buddy allocator (buddy-blocks.ts), one tree for each cluster and GPU type: a placement that a fleet may choose.
 *
 * Of all clusters the smallest free block that holds the gang and keeps the watts, then the first in the fleet's order. GPUs that may not be
 * taken, of cordoned hosts or reserved, break blocks as those that are held. A gang that no such block holds gets the least spread instead:
 * the paper's allocator refuses it, though enough GPUs are free, and beside a drained host it would wait for ever. Bandwidths are ignored.
 * Source: SpiderFlow appendix A. Cost: O(hosts + GPUs of hosts that are free in part), else that of the least spread.
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import { fullMask } from "../../lib/bits.ts";
import { buddyBlocks, type BuddyBlocks } from "./buddy-blocks.ts";
import type { FleetLayout, HostLayout } from "./layout.ts";
import { leastSpread } from "./least-spread.ts";
import type { PlaceDemand, PlacePolicy } from "./place-policy.ts";
import type { FleetSpread } from "./spread.ts";
import { isWithinWatts } from "./watts.ts";

export const buddy: PlacePolicy = (demand, hosts, ports) => {
  const free = new Map(hosts.map(({ at, freeMask }) => [at, freeMask]));
  const found = groundsFor(ports.spread)
    .filter(({ hosts: [first] }) => !demand.isSameFabric || first?.hasFabric === true)
    .flatMap((ground) => placesIn(ground, demand, free))
    .sort((a, b) => a.block - b.block)
    .find(({ gpus }) => isWithinWatts(demand.wattsLeft, hosts, gpus));
  if (found !== undefined) return { gpus: found.gpus, candidates: hosts.length };
  const spread = leastSpread(demand, hosts, ports);
  return { ...spread, candidates: hosts.length + spread.candidates };
};

/** The hosts of one cluster and GPU type, rack by rack. */
interface Ground {
  readonly hosts: readonly HostLayout[];
  readonly blocks: BuddyBlocks;
  /** By GPU: its host's place in `hosts`, and its number there. */
  readonly hostAt: readonly number[];
  readonly gpuAt: readonly number[];
}

/** Trees change with the fleet only. */
const known = new WeakMap<FleetSpread, readonly Ground[]>();

function groundsFor(spread: FleetSpread): readonly Ground[] {
  const grounds = known.get(spread) ?? groundsOf(spread.layout);
  known.set(spread, grounds);
  return grounds;
}

/** In the fleet's order. */
function groundsOf(layout: FleetLayout): readonly Ground[] {
  const alike = grouped([...layout.values()], ({ cluster, gpuType }) => `${cluster} ${gpuType}`);
  return alike.map((hosts) => {
    const racks = grouped(hosts, ({ rack }) => rack);
    const inRacks = racks.flat();
    return {
      hosts: inRacks,
      blocks: buddyBlocks(racks.map((rack) => rack.map(({ gpuCount }) => gpuCount))),
      hostAt: inRacks.flatMap(({ gpuCount }, at) => Array<number>(gpuCount).fill(at)),
      gpuAt: inRacks.flatMap(({ gpuCount }) => Array.from({ length: gpuCount }, (_, gpu) => gpu)),
    };
  });
}

/** The items with the same key together, in the order of their first ones. */
function grouped<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string | number,
): readonly (readonly Item[])[] {
  const groups = new Map<string | number, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

/** The place of the gang there: one or none. */
function placesIn(
  { hosts, blocks, hostAt, gpuAt }: Ground,
  { gpus, isSameHost }: PlaceDemand,
  free: ReadonlyMap<HostLayout, number>,
): readonly { readonly gpus: readonly HostGpus[]; readonly block: number }[] {
  const maskOf = (at: number): number => {
    const host = hosts[at];
    return host === undefined ? 0 : (free.get(host) ?? 0);
  };
  /** Blocks that are asked for are whole hosts or single GPUs of one. */
  const freeIn = (first: number, size: number): number => {
    const own = (maskOf(hostAt[first] ?? -1) >>> (gpuAt[first] ?? 0)) & fullMask(size);
    return popCount(own);
  };
  const taken = blocks.take(gpus, freeIn, { isSameHost });
  if (taken === undefined) return [];
  const masks = new Map<HostLayout, number>();
  for (const gpu of taken.gpus) {
    const host = hosts[hostAt[gpu] ?? -1];
    if (host !== undefined) masks.set(host, (masks.get(host) ?? 0) | (1 << (gpuAt[gpu] ?? 0)));
  }
  const parts = [...masks].map(([{ host }, mask]) => ({ host, mask }));
  return [{ gpus: parts.sort((a, b) => byCodeUnit(a.host, b.host)), block: taken.block }];
}
