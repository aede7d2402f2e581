/**
 * @file Rivals for the choice of clusters, behind the interface of ours, each in its best reading: Opportunistic, Lyra, MAST.
 *
 * Opportunistic (SpiderFlow §5.2): the cluster with most bandwidth first, with all its free GPUs, until the gang is whole. It uses no other rule.
 * Lyra (Li et al. 2023): training clusters are its own, inference clusters lend the GPUs that their load leaves free. One training cluster that holds the gang, the
 * tightest; else one lender; else training clusters, most free first, and lenders after them. It does not know links. GPUs that inference
 * keeps busy are not in `free`, for every policy alike.
 * MAST (Choudhury et al. 2024): one cluster or none; the tightest, which is more than it promises.
 * All three join only clusters that reach each other, as ours must. Ties: the lowest number. Cost: O(n log n).
 */

import {
  filled,
  type ClusterPolicy,
  type ClusterRoom,
  type ClusterDemand,
} from "../../../scheduling/placement/cluster-policy.ts";
import { byIncident } from "../../../scheduling/placement/link-graph.ts";

export const opportunistic: ClusterPolicy = (demand, room) =>
  withinParts([...byIncident(room.links)], demand, room);

export const mast: ClusterPolicy = (demand, room) => {
  const all = Array.from(room.free, (_, cluster) => cluster);
  return withinParts(tightest(all, demand, room), { ...demand, maxClusters: 1 }, room);
};

interface LyraOptions {
  /** By number of the cluster: whether it serves inference, and lends. */
  readonly isInference: readonly boolean[];
}

export const lyra =
  ({ isInference }: LyraOptions): ClusterPolicy =>
  (demand, room) => {
    const all = Array.from(room.free, (_, cluster) => cluster);
    const own = all.filter((cluster) => isInference[cluster] !== true);
    const usableReservations = all.filter((cluster) => isInference[cluster] === true);
    const single = [
      ...tightest(own, demand, room),
      ...tightest(usableReservations, demand, room),
    ].slice(0, 1);
    if (single.length > 0) return withinParts(single, demand, room);
    return withinParts(
      [...mostFree(own, room), ...mostFree(usableReservations, room)],
      demand,
      room,
    );
  };

/** Fills in this order, in each connected part by itself; the first part that holds the gang has it. */
function withinParts(order: readonly number[], demand: ClusterDemand, room: ClusterRoom) {
  const { part } = room.links.graph;
  let work = 0;
  for (const own of new Set(order.map((cluster) => part[cluster]))) {
    work += order.length;
    const choice = filled(
      order.filter((cluster) => part[cluster] === own),
      demand,
      room,
    );
    if (choice !== undefined) return { choice, work };
  }
  return { work };
}

const tightest = (
  clusters: readonly number[],
  { gpus }: ClusterDemand,
  { free }: ClusterRoom,
): readonly number[] =>
  clusters
    .filter((cluster) => (free[cluster] ?? 0) >= gpus)
    .sort((a, b) => (free[a] ?? 0) - (free[b] ?? 0) || a - b)
    .slice(0, 1);

const mostFree = (clusters: readonly number[], { free }: ClusterRoom): readonly number[] =>
  [...clusters].sort((a, b) => (free[b] ?? 0) - (free[a] ?? 0) || a - b);
