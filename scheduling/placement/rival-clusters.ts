/**
 * @file What others do about clusters, behind the interface of ours, each in its best reading: Opportunistic, Lyra, MAST.
 *
 * Opportunistic (SpiderFlow §5.2): whoever has most bandwidth first, all that it has, until the gang is whole. It minds nothing else.
 * Lyra (Li et al. 2023): training clusters are its own, inference clusters lend what their load leaves. One training cluster that holds the gang, the
 * tightest; else one lender; else training clusters, most free first, and lenders after them. It does not know links. What inference
 * keeps busy is off `free` before it asks, for every policy alike.
 * MAST (Choudhury et al. 2024): one cluster or none; the tightest, which is more than it promises.
 * All three join only clusters that reach each other, as ours must. Ties: the lowest number. Cost: O(n log n).
 */

import {
  filled,
  type ClusterPolicy,
  type ClusterRoom,
  type ClusterWish,
} from "./cluster-policy.ts";
import { byIncident } from "./link-graph.ts";

export const opportunistic: ClusterPolicy = (wish, room) =>
  withinParts([...byIncident(room.links)], wish, room);

export const mast: ClusterPolicy = (wish, room) => {
  const all = Array.from(room.free, (_, cluster) => cluster);
  return withinParts(tightest(all, wish, room), { ...wish, maxClusters: 1 }, room);
};

export interface LyraOptions {
  /** By number of the cluster: whether it serves inference, and lends. */
  readonly isInference: readonly boolean[];
}

export const lyra =
  ({ isInference }: LyraOptions): ClusterPolicy =>
  (wish, room) => {
    const all = Array.from(room.free, (_, cluster) => cluster);
    const own = all.filter((cluster) => isInference[cluster] !== true);
    const lenders = all.filter((cluster) => isInference[cluster] === true);
    const single = [...tightest(own, wish, room), ...tightest(lenders, wish, room)].slice(0, 1);
    if (single.length > 0) return withinParts(single, wish, room);
    return withinParts([...mostFree(own, room), ...mostFree(lenders, room)], wish, room);
  };

/** Fills in this order, in each connected part by itself; the first part that holds the gang has it. */
function withinParts(order: readonly number[], wish: ClusterWish, room: ClusterRoom) {
  const { part } = room.links.graph;
  let work = 0;
  for (const own of new Set(order.map((cluster) => part[cluster]))) {
    work += order.length;
    const choice = filled(
      order.filter((cluster) => part[cluster] === own),
      wish,
      room,
    );
    if (choice !== undefined) return { choice, work };
  }
  return { work };
}

const tightest = (
  clusters: readonly number[],
  { gpus }: ClusterWish,
  { free }: ClusterRoom,
): readonly number[] =>
  clusters
    .filter((cluster) => (free[cluster] ?? 0) >= gpus)
    .sort((a, b) => (free[a] ?? 0) - (free[b] ?? 0) || a - b)
    .slice(0, 1);

const mostFree = (clusters: readonly number[], { free }: ClusterRoom): readonly number[] =>
  [...clusters].sort((a, b) => (free[b] ?? 0) - (free[a] ?? 0) || a - b);
