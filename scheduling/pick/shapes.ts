/**
 * @file Candidates for clusters too large for all ways: shapes (counts without hosts), and their assignment to hosts.
 *
 * A shape is a list of counts, largest first, that sum to the gang. `shapesOf` yields, until its consumer stops: the packed one (as many
 * hosts of c GPUs as fit and one for the rest) and the even one for each c, largest c first; then all partitions by number of hosts, fewest
 * first. `seat` gives each count to a host that is still open and has enough free GPUs, by one of two rules. fast: highest intra-host
 * bandwidth at that count, then a broken host, then the fewest free, then the index. snug: fewest free GPUs first, then bandwidth, then
 * index, so whole hosts stay free. Both seat every shape that the cluster can hold, because counts come in falling order.
 * Cost: O(hosts · counts) for a shape.
 */

import type { Candidate, PickShare } from "./bandwidth-port.ts";
import type { HostOptions } from "./host-options.ts";

export type Shape = readonly number[];
export type SeatRule = "fast" | "snug";

export interface Seats {
  /** Undefined when the cluster cannot hold the shape. */
  readonly seat: (shape: Shape, rule: SeatRule) => Seated | undefined;
  /** Hosts that can give so many GPUs, best first. */
  readonly ranked: (count: number, rule: SeatRule) => readonly HostOptions[];
}

export interface Seated {
  readonly pick: Candidate;
  readonly slowestGbs: number;
}

export function openSeats(hosts: readonly HostOptions[]): Seats {
  const lists = new Map<string, readonly HostOptions[]>();
  const ranked = (count: number, rule: SeatRule): readonly HostOptions[] => {
    const key = `${rule} ${count}`;
    const known = lists.get(key);
    if (known !== undefined) return known;
    const able = hosts.filter(({ free }) => free >= count);
    const list = able.sort(rule === "fast" ? byFast(count) : bySnug(count));
    lists.set(key, list);
    return list;
  };
  /** By host, the number of the last seating that took it. */
  const taken = new Uint32Array(1 + hosts.reduce((most, { host }) => Math.max(most, host), 0));
  let seating = 0;
  const seat = (shape: Shape, rule: SeatRule): Seated | undefined => {
    seating += 1;
    const shares: PickShare[] = [];
    let slowestGbs = Infinity;
    let count = 0;
    let list: readonly HostOptions[] = [];
    let at = 0;
    for (const next of shape) {
      if (next !== count) {
        count = next;
        list = ranked(count, rule);
        at = 0;
      }
      while (at < list.length && taken[list[at]?.host ?? 0] === seating) at += 1;
      const host = list[at];
      if (host === undefined) return undefined;
      taken[host.host] = seating;
      shares.push({ host: host.host, mask: host.masks[count] ?? 0 });
      slowestGbs = Math.min(slowestGbs, host.gbs[count] ?? Infinity);
    }
    return { pick: shares.sort((a, b) => a.host - b.host), slowestGbs };
  };
  return { seat, ranked };
}

type Order = (a: HostOptions, b: HostOptions) => number;

const gbsAt = ({ gbs }: HostOptions, count: number): number => gbs[count] ?? -1;
/** Infinity less Infinity is no number. */
const byHigher = (a: number, b: number): number => (a === b ? 0 : b - a);

const byFast =
  (count: number): Order =>
  (a, b) =>
    byHigher(gbsAt(a, count), gbsAt(b, count)) ||
    Number(a.isWhole) - Number(b.isWhole) ||
    a.free - b.free ||
    a.host - b.host;

const bySnug =
  (count: number): Order =>
  (a, b) =>
    a.free - b.free || byHigher(gbsAt(a, count), gbsAt(b, count)) || a.host - b.host;

export function* shapesOf(hosts: readonly HostOptions[], gpus: number): Generator<Shape> {
  const mostFree = hosts.reduce((most, { free }) => Math.max(most, free), 0);
  for (let count = Math.min(mostFree, gpus); count > 0; count -= 1) {
    yield packedShape(count, gpus);
    yield evenShape(Math.ceil(gpus / count), gpus);
  }
  yield* cappedShapes(hosts, gpus);
  for (let parts = Math.ceil(gpus / mostFree); parts <= Math.min(gpus, hosts.length); parts += 1)
    yield* partitions(gpus, parts, mostFree);
}

function packedShape(count: number, gpus: number): Shape {
  const shape = new Array<number>(Math.floor(gpus / count)).fill(count);
  const rest = gpus % count;
  return rest === 0 ? shape : [...shape, rest];
}

function evenShape(parts: number, gpus: number): Shape {
  const level = Math.floor(gpus / parts);
  const higher = gpus - level * parts;
  return Array.from({ length: parts }, (_, at) => (at < higher ? level + 1 : level));
}

/** Where free GPUs are scarce even shares do not fit: hosts give what they have up to c, those with most free first. */
function* cappedShapes(hosts: readonly HostOptions[], gpus: number): Generator<Shape> {
  const frees = hosts.map(({ free }) => free).sort((a, b) => b - a);
  for (let cap = frees[0] ?? 0; cap > 0; cap -= 1) {
    const shape: number[] = [];
    let open = gpus;
    for (const free of frees) {
      if (open <= 0) break;
      const count = Math.min(free, cap, open);
      shape.push(count);
      open -= count;
    }
    if (open > 0) return;
    yield shape.sort((a, b) => b - a);
  }
}

/** Falling counts of at most `most`, so many of them; from the most even to the least. Cost: O(parts) for each. */
function* partitions(gpus: number, parts: number, most: number): Generator<Shape> {
  if (parts * most < gpus) return;
  const counts = [...evenShape(parts, gpus)];
  for (;;) {
    yield [...counts];
    const at = lastToRise(counts, most);
    if (at === undefined) return;
    const risen = (counts[at] ?? 0) + 1;
    const open = counts.slice(at).reduce((sum, count) => sum + count, -risen);
    counts.splice(at, parts - at, risen, ...evenShape(parts - at - 1, open));
  }
}

/** The last count that can be one higher: not above the one before it, and with a GPU left for each of the others. */
function lastToRise(counts: Shape, most: number): number | undefined {
  let open = counts.at(-1) ?? 0;
  for (let at = counts.length - 2; at >= 0; at -= 1) {
    const count = counts[at] ?? 0;
    const limit = at === 0 ? most : (counts[at - 1] ?? 0);
    if (count < limit && open - 1 >= counts.length - at - 1) return at;
    open += count;
  }
  return undefined;
}
