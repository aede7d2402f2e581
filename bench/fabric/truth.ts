/**
 * @file The true bus bandwidth of an all-reduce on a cluster: what its flows get on the links, and the time of its steps.
 *
 * The faster of ring and trees counts, as NCCL chooses: time = steps · time of a step + 2(n − 1)/n · message / GB/s. A ring of n GPUs over h
 * islands has 2(n − 1) steps, 2h of them between islands; trees have 2⌈log2 h⌉ steps between islands and 2(GPUs of an island − 1) inside.
 * Nothing is faster than NVLink inside its islands.
 */

import { gangOf, type FabricSet, type Gang } from "./collective.ts";
import type { Cluster } from "./fabric.ts";
import { aloneGbs, fairGbs, type Stream } from "./fair-rates.ts";
import type { Load } from "./routes.ts";

export interface FabricTruth {
  readonly cluster: Cluster;
  /** Bus bandwidth, GB/s, beside these neighbours; none make it faster. One GPU has no limit: Infinity. */
  readonly gbs: (set: FabricSet, neighbours?: readonly Stream[]) => number;
  /** No more than this can it be, from its cards alone: cheap. */
  readonly mostGbs: (set: FabricSet) => number;
  /** A gang that runs, as the neighbour of others; undefined when it uses no card. */
  readonly neighbour: (set: FabricSet) => Stream | undefined;
}

export function fabricTruth(cluster: Cluster): FabricTruth {
  return {
    cluster,
    gbs: (set, neighbours = []) => overall(cluster, gangOf(cluster, set), neighbours),
    mostGbs: (set) => mostGbs(cluster, set),
    neighbour: (set) => {
      const gang = gangOf(cluster, set);
      if (gang.channels === 0) return undefined;
      const { channels } = gang;
      const gbs = Math.min(insideGbs(cluster, gang), aloneGbs(cluster, gang.ring()));
      return { load: gang.ring(), channels, wantedPace: (cluster.duty * gbs) / channels };
    },
  };
}

function overall(cluster: Cluster, gang: Gang, neighbours: readonly Stream[]): number {
  const { gpus, islands, channels } = gang;
  if (gpus < 2) return Infinity;
  const { insideUs, betweenUs, messageGb, treeShare } = cluster;
  const inside = insideGbs(cluster, gang);
  const messages = (2 * (gpus - 1)) / gpus;
  const busGbs = (linkGbs: number, stepsUs: number): number => {
    const seconds = (messages * messageGb) / Math.min(inside, linkGbs);
    return (messages * messageGb) / (stepsUs * 1e-6 + seconds);
  };
  if (channels === 0) return busGbs(Infinity, 2 * (gpus - 1) * insideUs);
  const between = (load: Load): number =>
    fairGbs(cluster, { load, channels, wantedPace: Infinity }, neighbours);
  const ringUs = 2 * islands * betweenUs + 2 * (gpus - 1 - islands) * insideUs;
  const treesUs =
    2 * Math.ceil(Math.log2(islands)) * betweenUs + 2 * (gpus / islands - 1) * insideUs;
  const ring = busGbs(between(gang.ring()), ringUs);
  if (busGbs(Infinity, treesUs) <= ring) return ring;
  const trees = gang.trees();
  // Neighbours only slow them down.
  if (busGbs(aloneGbs(cluster, trees) * treeShare, treesUs) <= ring) return ring;
  return Math.max(ring, busGbs(between(trees) * treeShare, treesUs));
}

const insideGbs = (cluster: Cluster, { gpus, mostOnHost }: Gang): number =>
  gpus === mostOnHost ? cluster.insideGbs : cluster.islandGbs;

/**
 * A ring sends 1 GB/s of each through every card of every channel, a pair of trees half of that at least (2(n − 1) edges of n / (4(n − 1)) GB/s,
 * over two islands or more), so the slowest card in use limits both to twice its share.
 */
function mostGbs(cluster: Cluster, set: FabricSet): number {
  const gang = gangOf(cluster, set);
  if (gang.channels === 0) return insideGbs(cluster, gang);
  let slowest = Infinity;
  for (const { host, card } of gang.ports())
    slowest = Math.min(slowest, cluster.capacity[cluster.links.out(host, card)] ?? 0);
  return Math.min(insideGbs(cluster, gang), 2 * slowest * gang.channels);
}
