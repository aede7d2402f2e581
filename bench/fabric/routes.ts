/**
 * @file The way of one connection between two cards, as the load that it puts on links for each GB/s that it carries.
 *
 * Below one leaf switch it uses the two cards alone. Else each of its queue pairs takes one spine switch by a hash of cards, channel and
 * seed, as ECMP does, among those to which both leaf switches have an uplink that is up; a hash knows nothing of loads, so some collide. With
 * even spreading each open spine switch carries the same part. Cards of different rails meet through a spine switch, too: the numbers of
 * spine switches are then those of the first card's rail.
 */

import type { Cluster } from "./fabric.ts";

/** Load by link, with the links that have any. */
export interface Load {
  readonly byLink: Float64Array;
  readonly links: number[];
}

export const emptyLoad = ({ capacity }: Cluster): Load => ({
  byLink: new Float64Array(capacity.length),
  links: [],
});

export function add(load: Load, link: number, part: number): void {
  if (load.byLink[link] === 0) load.links.push(link);
  load.byLink[link] = (load.byLink[link] ?? 0) + part;
}

export interface Port {
  readonly host: number;
  readonly card: number;
}

export interface Connection {
  readonly from: Port;
  readonly to: Port;
  readonly channel: number;
  /** GB/s that it carries for each GB/s of the whole. */
  readonly volume: number;
}

export function addRoute(cluster: Cluster, load: Load, connection: Connection): void {
  const { links, paths } = cluster;
  const { from, to, channel, volume } = connection;
  add(load, links.out(from.host, from.card), volume);
  add(load, links.into(to.host, to.card), volume);
  const a = links.leafOf(from.host, from.card);
  const b = links.leafOf(to.host, to.card);
  if (a === b) return;
  const open = openSpines(cluster, a, b);
  const cross = (spine: number, part: number): void => {
    add(load, links.up(a, spine), part);
    add(load, links.down(b, spine), part);
  };
  // No spine switch joins the two leaf switches: nothing comes through.
  if (open.length === 0) cross(0, Infinity);
  else if (paths === 0) for (const spine of open) cross(spine, volume / open.length);
  else {
    const cards = cluster.hosts * cluster.cardsPerHost;
    const ends =
      (from.host * cluster.cardsPerHost + from.card) * cards +
      (to.host * cluster.cardsPerHost + to.card);
    for (let path = 0; path < paths; path += 1) {
      const spine = hashed(ends, channel * paths + path, cluster.seed) % open.length;
      cross(open[spine] ?? 0, volume / paths);
    }
  }
}

/** Memory of a pure function: by cluster, and the two leaf switches. */
const knownOpen = new WeakMap<Cluster, Map<number, readonly number[]>>();

/** The spine switches to which both leaf switches have an uplink that is up. */
function openSpines(cluster: Cluster, a: number, b: number): readonly number[] {
  const known = knownOpen.get(cluster) ?? new Map<number, readonly number[]>();
  knownOpen.set(cluster, known);
  const key = a * cluster.capacity.length + b;
  const before = known.get(key);
  if (before !== undefined) return before;
  const { capacity, links, uplinks } = cluster;
  const isUp = (leaf: number, spine: number): boolean => (capacity[links.up(leaf, spine)] ?? 0) > 0;
  const open = Array.from({ length: uplinks }, (_, spine) => spine).filter(
    (spine) => isUp(a, spine) && isUp(b, spine),
  );
  known.set(key, open);
  return open;
}

/** A well-mixed number of 32 bits (the finaliser of MurmurHash3 over three words). */
function hashed(a: number, b: number, c: number): number {
  let mixed = 0;
  for (const word of [a | 0, Math.floor(a / 2 ** 32), b, c]) {
    mixed = Math.imul(mixed ^ word, 0x85ebca6b) ^ (mixed >>> 13);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35);
    mixed ^= mixed >>> 16;
  }
  return mixed >>> 0;
}
