/**
 * @file The parts of a fleet that could serve a gang: sites, their clusters, their racks, and the GPUs that each can give.
 *
 * A part gives its free GPUs within its watts. Hosts of one type mostly draw alike; where they do not, a part counts with its highest draw:
 * the chosen GPUs never draw too much, though more might fit. Cost: O(hosts).
 */

import { sharesOf } from "./host-kind.ts";
import type { HostLayout } from "./layout.ts";
import type { PlaceDemand, PlaceHost, WattsLeft } from "./place-policy.ts";
import { gpusWithinWatts } from "./watts.ts";

export interface RackPart {
  /** In order. */
  readonly hosts: readonly PlaceHost[];
  readonly free: number;
  /** GPUs that it can give. */
  readonly most: number;
}

export interface ClusterPart {
  readonly site: number;
  readonly racks: readonly RackPart[];
  readonly most: number;
}

export interface SitePart {
  readonly clusters: readonly ClusterPart[];
  readonly most: number;
}

/** Hosts come in order; parts are in the order of their first hosts. */
export function partsOf(
  hosts: readonly PlaceHost[],
  { wattsLeft }: PlaceDemand,
): readonly SitePart[] {
  return groupsOf(hosts, ({ at }) => at.site).map((ofSite) => {
    const clusters = groupsOf(ofSite, ({ at }) => at.cluster).map((ofCluster) => {
      const racks = groupsOf(ofCluster, ({ at }) => at.rack).map((ofRack) => {
        const free = ofRack.reduce((sum, host) => sum + freeOf(host), 0);
        return { hosts: ofRack, free, most: Math.min(free, gpusWithin(ofRack, wattsLeft?.rack)) };
      });
      const most = Math.min(sumOfMost(racks), gpusWithin(ofCluster, wattsLeft?.cluster));
      return { site: ofCluster[0]?.at.site ?? 0, racks, most };
    });
    const most = Math.min(sumOfMost(clusters), gpusWithin(ofSite, wattsLeft?.site));
    return { clusters, most };
  });
}

export const freeOf = ({ at, freeMask }: PlaceHost): number => sharesOf(at.kind, freeMask).free;

/** Number of parts, the largest first, that hold the GPUs together; all of them where that is too few. */
export function fewestHolding(gpus: number, sizes: readonly number[]): number {
  let open = gpus;
  let count = 0;
  for (const size of [...sizes].sort((a, b) => b - a)) {
    if (open <= 0) break;
    open -= size;
    count += 1;
  }
  return count;
}

const sumOfMost = (parts: readonly { readonly most: number }[]): number =>
  parts.reduce((sum, { most }) => sum + most, 0);

function gpusWithin(hosts: readonly PlaceHost[], left: WattsLeft["rack"]): number {
  const [first] = hosts;
  if (left === undefined || first === undefined) return Infinity;
  const draw = hosts.reduce((most, { at }) => Math.max(most, at.gpuWatts), 0);
  return gpusWithinWatts(left(first.at), draw);
}

/** How many GPUs of a host's draw its rack, cluster and site allow together. */
export function gpusWithinAll(at: HostLayout, wattsLeft: WattsLeft | undefined): number {
  if (wattsLeft === undefined) return Infinity;
  const { rack, cluster, site } = wattsLeft;
  const left = Math.min(rack?.(at) ?? Infinity, cluster?.(at) ?? Infinity, site?.(at) ?? Infinity);
  return gpusWithinWatts(left, at.gpuWatts);
}

function groupsOf(
  hosts: readonly PlaceHost[],
  keyOf: (host: PlaceHost) => number,
): readonly (readonly PlaceHost[])[] {
  const groups = new Map<number, PlaceHost[]>();
  for (const host of hosts) {
    const key = keyOf(host);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [host]);
    else group.push(host);
  }
  return [...groups.values()];
}
