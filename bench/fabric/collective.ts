/**
 * @file The loads of one all-reduce on the links of a cluster, for each GB/s of its bus bandwidth, as a ring and as a pair of trees.
 *
 * An *island* is what NVLink joins: a host, or an NVLink domain. Channels leave an island through the cards near the gang's GPUs there (card
 * ⌊g · cards / GPUs⌋ of GPU g) and run side by side: as many as the island with fewest such cards has, up to the fabric's most. Channel c
 * takes the cards of each island evenly, so rails meet where islands have the same cards.
 *
 * Ring: islands in the order of the hosts; each channel carries 1/channels of the bus bandwidth from island to island. Trees: NCCL's pair of
 * binary trees over the islands, in which each edge carries half of the message up and down; for one GB/s of bus bandwidth,
 * which counts 2(n − 1)/n messages of n GPUs, an edge carries n / (4(n − 1)) GB/s each way.
 */

import type { Cluster } from "./fabric.ts";
import { addRoute, emptyLoad, type Load, type Port } from "./routes.ts";

/** GPUs of one host: bit i set = GPU i; never 0. */
export interface FabricShare {
  readonly host: number;
  readonly mask: number;
}

/** The GPUs of a gang, ascending by host. */
export type FabricSet = readonly FabricShare[];

export interface Gang {
  readonly gpus: number;
  readonly islands: number;
  /** Side by side; 0 of a gang on one island. */
  readonly channels: number;
  /** Of the largest number of GPUs on one host. */
  readonly mostOnHost: number;
  /** The cards of all channels, one for each channel and island. */
  readonly ports: () => readonly Port[];
  readonly ring: () => Load;
  readonly trees: () => Load;
}

export function gangOf(cluster: Cluster, set: FabricSet): Gang {
  const islands = islandsOf(cluster, set);
  const gpus = set.reduce((sum, { mask }) => sum + bits(mask), 0);
  const fewest = islands.reduce((least, ports) => Math.min(least, ports.length), Infinity);
  const channels = islands.length < 2 ? 0 : Math.min(fewest, cluster.channels);
  const mostOnHost = set.reduce((most, { mask }) => Math.max(most, bits(mask)), 0);
  /** Edges between islands, each of which carries `volume` of the whole. */
  const loadOf = (edges: readonly Edge[], volume: number): Load => {
    const load = emptyLoad(cluster);
    for (let channel = 0; channel < channels; channel += 1)
      for (const [a, b] of edges) {
        const from = portOf(islands[a] ?? [], channel, channels);
        const to = portOf(islands[b] ?? [], channel, channels);
        addRoute(cluster, load, { from, to, channel, volume: volume / channels });
      }
    return load;
  };
  return {
    gpus,
    islands: islands.length,
    channels,
    mostOnHost,
    ports: () =>
      islands.flatMap((own) =>
        Array.from({ length: channels }, (_, channel) => portOf(own, channel, channels)),
      ),
    ring: once(() => loadOf(ringEdges(islands.length), 1)),
    trees: once(() => loadOf(treeEdges(islands.length), gpus / (4 * (gpus - 1)))),
  };
}

function once<Value>(make: () => Value): () => Value {
  let made: Value | undefined;
  return () => (made ??= make());
}

function portOf(ports: readonly Port[], channel: number, channels: number): Port {
  const port = ports[Math.floor((channel * ports.length) / channels)];
  if (port === undefined) throw new Error("an island without a card has no channel");
  return port;
}

/** The cards near the gang's GPUs, by island, in the order of the hosts; cards of one number side by side. */
function islandsOf(cluster: Cluster, set: FabricSet): readonly (readonly Port[])[] {
  const { cardsPerHost, gpusPerHost, hostsPerIsland } = cluster;
  const byIsland = new Map<number, Port[]>();
  for (const { host, mask } of set) {
    const island = Math.floor(host / hostsPerIsland);
    const ports = byIsland.get(island) ?? [];
    byIsland.set(island, ports);
    let last = -1;
    for (let gpu = 0; gpu < gpusPerHost; gpu += 1) {
      const card = Math.floor((gpu * cardsPerHost) / gpusPerHost);
      if ((mask & (1 << gpu)) === 0 || card === last) continue;
      last = card;
      ports.push({ host, card });
    }
  }
  return [...byIsland.values()].map((ports) =>
    ports.sort((a, b) => a.card - b.card || a.host - b.host),
  );
}

/** From island to island. */
export type Edge = readonly [from: number, to: number];

const ringEdges = (count: number): readonly Edge[] =>
  Array.from({ length: count }, (_, at) => [at, (at + 1) % count] as const);

/** Both directions of both trees; the second tree is the first, shifted by one place. */
export function treeEdges(count: number): readonly Edge[] {
  const edges: Edge[] = [];
  for (let at = 1; at < count; at += 1) {
    const parent = parentOf(at, count);
    const [a, b] = [(at + 1) % count, (parent + 1) % count];
    edges.push([at, parent], [parent, at], [a, b], [b, a]);
  }
  return edges;
}

/** The root is 0, below it a binary search tree over the rest: a node's lowest bit is its height. */
function parentOf(at: number, count: number): number {
  const low = at & -at;
  const above = (at ^ low) | (low << 1);
  return above < count ? above : at ^ low;
}

export function bits(mask: number): number {
  let count = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) count += 1;
  return count;
}
