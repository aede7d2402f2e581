/**
 * @file A ledger of clusters that evolves: gangs come, get their clusters and the links between them, and leave again.
 *
 * Seven of ten gangs ask for a power of two up to the largest cluster, three of ten for more than any cluster has, up to nine times as
 * much but not more than three quarters of the fleet. Before each arrival gangs end, drawn evenly, until what is held with the newcomer is at most the
 * wanted part of the fleet, which swings between 30 and 95 %. A gang that finds no place is refused and gone. Arrivals and ends are the same for
 * every method; only what the methods make of the ledger differs.
 */

import type { Random } from "../../lib/random.ts";
import type {
  ClusterChoice,
  ClusterRoom,
  ClusterDemand,
} from "../../scheduling/placement/cluster-policy.ts";
import { addLoad, linksOf, openLoads } from "../../scheduling/placement/link-graph.ts";
import type { Topology } from "./topology.ts";

export interface Arrival {
  readonly demand: ClusterDemand;
  /** GPUs that may be held with it. */
  readonly most: number;
}

export const OCCUPANCY = { least: 0.3, most: 0.95 } as const;
const BEYOND_SHARE = 0.3;
/** Decisions from the emptiest to the fullest and back. */
const SWING = 500;

export function arrivalsOf({ gpus }: Topology, count: number, random: Random): readonly Arrival[] {
  const total = gpus.reduce((sum, own) => sum + own, 0);
  const largest = Math.max(...gpus);
  const furthest = Math.max(1, Math.min(9 * largest, Math.floor(0.75 * total)));
  const powers = Array.from({ length: 1 + Math.floor(Math.log2(largest)) }, (_, at) => 2 ** at);
  return Array.from({ length: count }, (_, at): Arrival => {
    const isBeyond = random.unit() < BEYOND_SHARE && furthest > largest;
    const wanted = isBeyond
      ? largest + 1 + random.below(furthest - largest)
      : (powers[random.below(powers.length)] ?? 1);
    const phase = (1 - Math.cos((2 * Math.PI * at) / SWING)) / 2;
    const share = OCCUPANCY.least + (OCCUPANCY.most - OCCUPANCY.least) * phase;
    return {
      demand: { gpus: wanted, maxClusters: gpus.length, home: random.below(gpus.length) },
      most: Math.max(wanted, Math.floor(share * total)),
    };
  });
}

interface Gang {
  readonly choice: ClusterChoice;
  readonly links: readonly number[];
}

export interface Book {
  readonly room: ClusterRoom;
  readonly gangs: Gang[];
  held: number;
}

export const openBook = ({ graph, gpus }: Topology): Book => ({
  room: { links: openLoads(graph), free: Int32Array.from(gpus) },
  gangs: [],
  held: 0,
});

/** Ends gangs until the newcomer may come. */
export function makeRoom(book: Book, { demand, most }: Arrival, random: Random): void {
  while (book.held + demand.gpus > most) {
    const at = random.below(book.gangs.length);
    const last = book.gangs.pop();
    const gang = at === book.gangs.length ? last : book.gangs[at];
    if (gang === undefined) return;
    if (last !== undefined && gang !== last) book.gangs[at] = last;
    change(book, gang, -1);
  }
}

export function start(book: Book, choice: ClusterChoice): void {
  const gang: Gang = { choice, links: linksOf(book.room.links, choice.clusters) };
  book.gangs.push(gang);
  change(book, gang, 1);
}

function change(book: Book, { choice: { clusters, gpus }, links }: Gang, sign: 1 | -1): void {
  const { free } = book.room;
  for (let at = 0; at < clusters.length; at += 1) {
    const cluster = clusters[at] ?? 0;
    const own = gpus[at] ?? 0;
    free[cluster] = (free[cluster] ?? 0) - sign * own;
    book.held += sign * own;
  }
  addLoad(book.room.links, links, sign);
}

/** What is wrong with an answer; undefined when the gang is whole, of what is free, and over clusters that reach each other. */
export function faultOf(
  { clusters, gpus }: ClusterChoice,
  demand: ClusterDemand,
  { free, links: { graph } }: ClusterRoom,
): string | undefined {
  const sum = gpus.reduce((total, own) => total + own, 0);
  if (sum !== demand.gpus) return `${String(sum)} of ${String(demand.gpus)} GPUs`;
  if (new Set(clusters).size !== clusters.length) return "a cluster twice";
  if (clusters.length > demand.maxClusters) return "too many clusters";
  if (new Set(clusters.map((cluster) => graph.part[cluster])).size > 1)
    return "clusters that do not reach each other";
  const at = clusters.findIndex(
    (cluster, place) => (gpus[place] ?? 0) < 1 || (gpus[place] ?? 0) > (free[cluster] ?? 0),
  );
  return at < 0 ? undefined : `${String(gpus[at])} GPUs of ${String(free[clusters[at] ?? 0])} free`;
}
