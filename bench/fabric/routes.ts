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
  const { links, paths, uplinks } = cluster;
  const { from, to, channel, volume } = connection;
  add(load, links.out(from.host, from.card), volume);
  add(load, links.into(to.host, to.card), volume);
  const a = links.leafOf(from.host, from.card);
  const b = links.leafOf(to.host, to.card);
  if (a === b) return;
  const isOpen = (spine: number): boolean => isUp(cluster, a, spine) && isUp(cluster, b, spine);
  const cross = (spine: number, part: number): void => {
    add(load, links.up(a, spine), part);
    add(load, links.down(b, spine), part);
  };
  if (paths === 0) {
    let open = 0;
    for (let spine = 0; spine < uplinks; spine += 1) if (isOpen(spine)) open += 1;
    for (let spine = 0; spine < uplinks; spine += 1) if (isOpen(spine)) cross(spine, volume / open);
    // No spine switch joins the two leaf switches: nothing comes through.
    if (open === 0) cross(0, Infinity);
    return;
  }
  const ends =
    (from.host * cluster.cardsPerHost + from.card) * cluster.hosts * cluster.cardsPerHost +
    (to.host * cluster.cardsPerHost + to.card);
  for (let path = 0; path < paths; path += 1) {
    const first = hashed(ends, channel * paths + path, cluster.seed) % uplinks;
    let spine = first;
    for (let tried = 1; tried < uplinks && !isOpen(spine); tried += 1)
      spine = (first + tried) % uplinks;
    cross(spine, isOpen(spine) ? volume / paths : Infinity);
  }
}

const isUp = ({ capacity, links }: Cluster, leaf: number, spine: number): boolean =>
  (capacity[links.up(leaf, spine)] ?? 0) > 0;

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
