/** @file The last polish of a cut: never heavier, never overloaded, and no single move or swap is left that helps. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { cutGraphOf, cutWeight, loadsOf } from "../../../planning/parallelism/cut-graph.ts";
import { descendCut } from "../../../planning/parallelism/descend-cut.ts";
import { smallGraphs } from "./cut-oracle.ts";

const graphs = smallGraphs({
  leastNodeWeight: 1,
  edgeWeight: fc.integer({ min: 1, max: 9 }),
  mostEdges: 14,
});

test("a chain with one node astray is put in order by a swap", () => {
  const edges = Array.from({ length: 5 }, (_, at) => ({ a: at, b: at + 1, weight: 1 }));
  const chain = cutGraphOf([1, 1, 1, 1, 1, 1], edges);
  const polished = descendCut(chain, Int32Array.of(0, 0, 1, 0, 1, 1), [3, 3]);
  expect([...polished]).toEqual([0, 0, 0, 1, 1, 1]);
});

test("ends in a local optimum within the capacities", () => {
  const slack = fc.integer({ min: 0, max: 4 });
  const spread = fc.array(fc.nat({ max: 1 }), { minLength: 7, maxLength: 7 });
  fc.assert(
    fc.property(graphs, spread, slack, (graph, of, more) => {
      const start = Int32Array.from({ length: graph.nodeCount }, (_, node) => of[node] ?? 0);
      const capacities = [...loadsOf(graph, start, 2)].map((load) => load + more);
      const holds = (parts: Int32Array): boolean =>
        loadsOf(graph, parts, 2).every((load, part) => load <= (capacities[part] ?? 0));
      const found = descendCut(graph, start, capacities);
      const weight = cutWeight(graph, found);
      expect(holds(found)).toBe(true);
      expect(weight).toBeLessThanOrEqual(cutWeight(graph, start));
      for (let a = 0; a < graph.nodeCount; a += 1) {
        const moved = found.slice();
        moved[a] = 1 - (found[a] ?? 0);
        if (holds(moved)) expect(cutWeight(graph, moved)).toBeGreaterThanOrEqual(weight);
        for (let b = a + 1; b < graph.nodeCount; b += 1) {
          const swapped = found.slice();
          swapped[a] = found[b] ?? 0;
          swapped[b] = found[a] ?? 0;
          if (holds(swapped)) expect(cutWeight(graph, swapped)).toBeGreaterThanOrEqual(weight);
        }
      }
    }),
  );
});
