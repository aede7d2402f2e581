/**
 * @file The bandwidth of a gang beside others whose loads meet its own: max–min fairness between flows.
 *
 * All flows of a collective run at one pace, because its slowest one holds up the rest. So the paces of all gangs rise together (progressive
 * filling, Bertsekas and Gallager §6.5.2) until a link is full: the gangs on it stay at that pace, and the others go on. A neighbour
 * wants no more than its share of time at the bandwidth that it has alone. Cost: O(gangs · links in use).
 */

import type { Cluster } from "./fabric.ts";
import type { Load } from "./routes.ts";

/** Load at a pace of 1 GB/s a flow: by link, with the pace that it wants at most. */
export interface Stream {
  readonly load: Load;
  /** Flows side by side: bandwidth = pace · channels. */
  readonly channels: number;
  readonly wantedPace: number;
}

/** GB/s that the load allows when nothing else runs. */
export function aloneGbs({ capacity }: Cluster, { byLink, links }: Load): number {
  let least = Infinity;
  for (const link of links)
    least = Math.min(least, (capacity[link] ?? 0) / (byLink[link] ?? Infinity));
  return least;
}

/** GB/s of the first; the others are its neighbours. */
export function fairGbs(cluster: Cluster, own: Stream, neighbours: readonly Stream[]): number {
  if (neighbours.length === 0) return aloneGbs(cluster, own.load);
  const { capacity } = cluster;
  const rest = Float64Array.from(capacity);
  const rising = new Float64Array(capacity.length);
  const streams = [own, ...neighbours];
  const open = new Set(streams);
  const used = new Set<number>();
  for (const { load, channels } of streams)
    for (const link of load.links) {
      rising[link] = (rising[link] ?? 0) + (load.byLink[link] ?? 0) * channels;
      used.add(link);
    }
  const links = [...used];
  for (;;) {
    let pace = Infinity;
    let full = -1;
    for (const link of links) {
      const load = rising[link] ?? 0;
      if (load <= EPSILON) continue;
      const reached = Math.max(0, rest[link] ?? 0) / load;
      if (reached >= pace) continue;
      pace = reached;
      full = link;
    }
    for (const { wantedPace } of open) pace = Math.min(pace, wantedPace);
    const stopped = [...open].filter(
      ({ load, wantedPace }) =>
        wantedPace <= pace + EPSILON ||
        ((load.byLink[full] ?? 0) > 0 &&
          (rest[full] ?? 0) <= pace * (rising[full] ?? 0) * (1 + EPSILON)),
    );
    if (stopped.includes(own) || stopped.length === 0) return pace * own.channels;
    for (const stream of stopped) {
      open.delete(stream);
      for (const link of stream.load.links) {
        const load = (stream.load.byLink[link] ?? 0) * stream.channels;
        rest[link] = (rest[link] ?? 0) - load * pace;
        rising[link] = (rising[link] ?? 0) - load;
      }
    }
  }
}

/** Relative; paces closer than this are the same. */
const EPSILON = 1e-9;
