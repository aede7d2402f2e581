/** @file The labelled graph of clusters: the weaker figures of two directions, unknown ends, and the sets that reach each other. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { clusterGraph, numberedLinks, reachableSets } from "../../../domain/fleet/cluster-graph.ts";
import type { Link } from "../../../domain/fleet/fleet.ts";
import { clusterId } from "../../../domain/values/ids.ts";
import { gbps, ms } from "../../../domain/values/units.ts";

const ids = ["7", "3", "c2", "c3", "c4"].map((name) => clusterId(name));
const link = (from: string, to: string, more: Partial<Link> = {}): Link => ({
  from: clusterId(from),
  to: clusterId(to),
  bandwidthGbps: gbps(100),
  latencyMs: ms(1),
  ...more,
});

test("two directions are one link with the weaker figures", () => {
  const graph = clusterGraph(ids, [
    link("7", "3", { bandwidthGbps: gbps(50), latencyMs: ms(2) }),
    link("3", "7", { bandwidthGbps: gbps(80), latencyMs: ms(9), usdPerGB: 0.1 }),
  ]);
  const [only, ...others] = numberedLinks(graph);
  expect(others).toEqual([]);
  expect([only?.a, only?.b].sort()).toEqual([0, 1]);
  expect(only?.label).toEqual({ bandwidthGbps: 50, latencyMs: 9, usdPerGB: 0.1 });
});

test("links to unknown clusters and loops are left out", () => {
  const graph = clusterGraph(ids, [link("7", "elsewhere"), link("c2", "c2")]);
  expect(numberedLinks(graph)).toEqual([]);
  expect(reachableSets(graph)).toEqual([[0], [1], [2], [3], [4]]);
});

test("sets come in the fleet's order, whatever the names look like", () => {
  const graph = clusterGraph(ids, [link("c4", "7"), link("3", "c3")]);
  expect(reachableSets(graph)).toEqual([[0, 4], [1, 3], [2]]);
});

test("two clusters share a set exactly when a path of links joins them", () => {
  const place = fc.nat({ max: ids.length - 1 });
  fc.assert(
    fc.property(fc.array(fc.tuple(place, place), { maxLength: 6 }), (pairs) => {
      const links = pairs.map(([a, b]) => link(ids[a] ?? "", ids[b] ?? ""));
      const reaches = ids.map((_, from) => ids.map((__, to) => from === to));
      for (const [a, b] of pairs)
        for (const [x, y] of [
          [a, b],
          [b, a],
        ] as const) {
          const row = reaches[x];
          if (row !== undefined) row[y] = true;
        }
      // Floyd and Warshall.
      for (const via of ids.keys())
        for (const row of reaches)
          if (row[via] === true)
            for (const to of ids.keys()) row[to] ||= reaches[via]?.[to] === true;
      const sets = reachableSets(clusterGraph(ids, links));
      const setOf = ids.map((_, at) => sets.findIndex((set) => set.includes(at)));
      for (const from of ids.keys())
        for (const to of ids.keys())
          expect(setOf[from] === setOf[to]).toBe(reaches[from]?.[to] === true);
    }),
  );
});
