/** @file Widest paths, what gangs leave of links, and which links a gang uses. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ClusterRoom } from "../../../scheduling/placement/cluster-policy.ts";
import {
  addLoad,
  bottleneckOf,
  byIncident,
  hopsFrom,
  linksOf,
  openLoads,
  widestFrom,
} from "../../../scheduling/placement/link-graph.ts";
import { anyRoom, namesOf, roomOf } from "./clusters.ts";

const CHAIN = roomOf({ a: 1, b: 1, c: 1, d: 1 }, [
  { between: "ab", gbps: 10 },
  { between: "bc", gbps: 4 },
  { between: "ac", gbps: 2 },
]);

/** By trying relay after relay. */
function widthsOf({ links: { graph, shareGbps } }: ClusterRoom): readonly (readonly number[])[] {
  const { count } = graph;
  const all = Array.from({ length: count }, (_, at) => at);
  const widths = all.map((a) =>
    all.map((b) => (a === b ? Infinity : (shareGbps[a * count + b] ?? 0))),
  );
  for (const relay of all)
    for (const a of all)
      for (const b of all) {
        const row = widths[a] ?? [];
        row[b] = Math.max(row[b] ?? 0, Math.min(row[relay] ?? 0, widths[relay]?.[b] ?? 0));
      }
  return widths;
}

describe("the widest path", () => {
  test("goes by relays where they are wider than the direct link", () => {
    expect([...widestFrom(CHAIN.links, 0)]).toEqual([Infinity, 10, 4, 0]);
    expect(bottleneckOf(CHAIN.links, [0, 2])).toBe(4);
  });

  test("is infinite inside one cluster and 0 to a cluster that nothing joins", () => {
    expect(bottleneckOf(CHAIN.links, [2])).toBe(Infinity);
    expect(bottleneckOf(CHAIN.links, [0, 1, 3])).toBe(0);
  });

  test("is what trying all relays finds, between all pairs, on loaded links", () => {
    fc.assert(
      fc.property(anyRoom(12), (room) => {
        const want = widthsOf(room);
        for (const [a, row] of want.entries()) {
          expect([...widestFrom(room.links, a)]).toEqual(row);
          for (const [b, width] of row.entries())
            expect(bottleneckOf(room.links, [a, b])).toBe(width);
        }
      }),
    );
  });
});

test("a link counts both ways, by the weaker direction", () => {
  const { links } = roomOf({ a: 1, b: 1 }, [
    { between: "ab", gbps: 5, latencyMs: 3, usdPerGB: 0.02 },
    { between: "ba", gbps: 4, latencyMs: 2 },
  ]);
  expect([...links.graph.gbps]).toEqual([0, 4, 4, 0]);
  expect([...links.graph.latencyMs]).toEqual([Infinity, 3, 3, Infinity]);
  expect([...links.graph.usdPerGB]).toEqual([Infinity, 0.02, 0.02, Infinity]);
});

test("hops count links, and −1 stands for no way", () => {
  expect([...hopsFrom(CHAIN.links.graph, 2)]).toEqual([1, 1, 0, -1]);
});

describe("what gangs leave", () => {
  test("a gang uses the links between its clusters, relays included, and no others", () => {
    expect(linksOf(CHAIN.links, [0, 2]).map((at) => namesOf([at >> 2, at & 3]))).toEqual([
      "bc",
      "ab",
    ]);
    expect(linksOf(CHAIN.links, [0, 1]).map((at) => namesOf([at >> 2, at & 3]))).toEqual(["ab"]);
    expect(linksOf(CHAIN.links, [1])).toEqual([]);
  });

  test("the next gang gets its fair share, and all of it once they have gone", () => {
    const links = openLoads(CHAIN.links.graph);
    const used = linksOf(links, [0, 1]);
    addLoad(links, used, 1);
    expect(bottleneckOf(links, [0, 1])).toBe(5);
    addLoad(links, used, 1);
    expect(bottleneckOf(links, [0, 1])).toBeCloseTo(10 / 3, 12);
    addLoad(links, used, -1);
    addLoad(links, used, -1);
    expect(links.shareGbps).toEqual(CHAIN.links.shareGbps);
    expect(links.incidentGbps).toEqual(CHAIN.links.incidentGbps);
  });

  test("the order by bandwidth is that of the sums, whatever came and went", () => {
    fc.assert(
      fc.property(anyRoom(12), ({ links }) => {
        const order = [...byIncident(links)];
        const sums = links.incidentGbps;
        const want = order
          .map((each) => each)
          .sort((a, b) => (sums[b] ?? 0) - (sums[a] ?? 0) || a - b);
        expect(order).toEqual(want);
        const fresh = openLoads(links.graph);
        expect(byIncident(fresh)).toHaveLength(links.graph.count);
      }),
    );
  });
});
