/**
 * @file SpinSearch as §4.1.2 and §4.1.3 have it, word for word; kept beside the order of §4.1.4 so that the two can be compared.
 *
 * First-fit decreasing over all clusters, most incident bandwidth first: each gives what it has until the gang is whole. That fails only when
 * the whole fleet is too small, so the expansion of hops that should follow, over fewer clusters, can never succeed where it failed: it is dead
 * text, unless clusters do not all reach each other. It opens far more clusters than §4.1.4, and is what the paper calls opportunistic.
 * Cost: O(n log n). Source: SpiderFlow §4.1.2, §4.1.3, equations 4 to 7; docs/decisions/0025.
 */

import {
  filled,
  type ClusterPolicy,
  type ClusterRoom,
} from "../../../scheduling/placement/cluster-policy.ts";
import {
  bottleneckOf,
  byIncident,
  hopsFrom,
  widestFrom,
} from "../../../scheduling/placement/link-graph.ts";

export const spinSearchLiteral: ClusterPolicy = (demand, room) => {
  const { links } = room;
  const { count } = links.graph;
  const order = byIncident(links);
  let work = count;
  const first = filled(order, demand, room);
  if (first !== undefined && bottleneckOf(links, first.clusters) > 0)
    return { choice: first, work };
  const anchor = order[0] ?? 0;
  const hops = hopsFrom(links.graph, anchor);
  const byKey = keyed(room, anchor);
  const diameter = hops.reduce((most, away) => Math.max(most, away), 0);
  for (let radius = 1; radius <= diameter; radius += 1) {
    work += count;
    const near = byKey.filter((cluster) => isWithin(hops[cluster], radius));
    const choice = filled(near, demand, room);
    if (choice !== undefined) return { choice, work };
  }
  return { work };
};

const isWithin = (away: number | undefined, radius: number): boolean =>
  away !== undefined && away >= 0 && away <= radius;

function keyed({ free, links }: ClusterRoom, anchor: number): readonly number[] {
  const widths = widestFrom(links, anchor);
  const { incidentGbps } = links;
  const descending = (a: number | undefined, b: number | undefined): number =>
    a === b ? 0 : (b ?? 0) - (a ?? 0);
  return Array.from(free, (_, cluster) => cluster).sort(
    (a, b) =>
      descending(widths[a], widths[b]) ||
      descending(free[a], free[b]) ||
      descending(incidentGbps[a], incidentGbps[b]) ||
      a - b,
  );
}
