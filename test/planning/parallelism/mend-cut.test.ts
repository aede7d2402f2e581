/** @file Repaired cuts hold; a cut that holds stays; the cheapest repair is taken first. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { cutGraphOf, loadsOf } from "../../../planning/parallelism/cut-graph.ts";
import { mendCut } from "../../../planning/parallelism/mend-cut.ts";
import { smallGraphs } from "./cut-oracle.ts";

const edges = [
  { a: 0, b: 1, weight: 9 },
  { a: 1, b: 2, weight: 1 },
  { a: 2, b: 3, weight: 9 },
];

test.each([
  { what: "a cut that holds", weights: [1, 1, 1, 1], start: [0, 0, 1, 1], want: [0, 0, 1, 1] },
  { what: "one node too many", weights: [1, 1, 1, 1], start: [0, 0, 0, 1], want: [0, 0, 1, 1] },
  { what: "a swap of unequal nodes", weights: [3, 1, 1, 1], start: [0, 0, 1, 1], want: undefined },
])("$what", ({ weights, start, want }) => {
  const found = mendCut(cutGraphOf(weights, edges), Int32Array.from(start), [2, 2]);
  expect(found && [...found]).toEqual(want);
});

test("the heavier node changes places where only a swap can help", () => {
  const graph = cutGraphOf([3, 2, 2, 1], []);
  const found = mendCut(graph, Int32Array.of(0, 0, 1, 1), [4, 4]);
  expect(found && [...loadsOf(graph, found, 2)]).toEqual([4, 4]);
});

test("an answer holds, and there is one wherever a single node moved or swapped suffices", () => {
  const graphs = smallGraphs({
    leastNodeWeight: 1,
    edgeWeight: fc.integer({ min: 1, max: 9 }),
    mostEdges: 12,
  });
  const spread = fc.array(fc.nat({ max: 1 }), { minLength: 7, maxLength: 7 });
  const rooms = fc.array(fc.integer({ min: 2, max: 14 }), { minLength: 2, maxLength: 2 });
  fc.assert(
    fc.property(graphs, spread, rooms, (graph, of, capacities) => {
      const start = Int32Array.from({ length: graph.nodeCount }, (_, node) => of[node] ?? 0);
      const holds = (parts: Int32Array): boolean =>
        loadsOf(graph, parts, 2).every((load, part) => load <= (capacities[part] ?? 0));
      const found = mendCut(graph, start, capacities);
      if (found !== undefined) expect(holds(found)).toBe(true);
      const isOneMoveAway = [...start].some((part, node) => {
        const moved = start.slice();
        moved[node] = 1 - part;
        return holds(moved);
      });
      if (holds(start)) expect(found).toEqual(start);
      else if (isOneMoveAway) expect(found).toBeDefined();
    }),
  );
});
