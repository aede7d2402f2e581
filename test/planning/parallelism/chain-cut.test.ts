/** @file Cuts of an order into intervals: the lightest of all of them, and orders that grow along a chain. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chainCut, grownOrder } from "../../../planning/parallelism/chain-cut.ts";
import { cutGraphOf, cutWeight } from "../../../planning/parallelism/cut-graph.ts";
import { lightest, smallGraphs } from "./cut-oracle.ts";
import { caseCount } from "../../support/case-count.ts";

const smallGraph = smallGraphs({
  leastNodeWeight: 0,
  edgeWeight: fc.constantFrom(1, 2, 5, 1000, 1e8),
  mostEdges: 10,
});
const someCapacities = fc.array(fc.integer({ min: 3, max: 12 }), { minLength: 2, maxLength: 3 });

/** Whether each part is one run of the order at most. */
const isOfIntervals = (parts: Int32Array, order: Int32Array): boolean => {
  const runs = [...order]
    .map((node) => parts[node])
    .filter((part, at, all) => part !== all[at - 1]);
  return new Set(runs).size === runs.length;
};

describe("intervals of an order", () => {
  test("are the lightest of all intervals that hold", () => {
    fc.assert(
      fc.property(smallGraph, someCapacities, (graph, capacities) => {
        for (const order of [
          Int32Array.from({ length: graph.nodeCount }, (_, node) => node),
          grownOrder(graph),
        ]) {
          const parts = chainCut(graph, order, capacities);
          const best = lightest(graph, capacities, (each) => isOfIntervals(each, order));
          expect(parts === undefined ? undefined : cutWeight(graph, parts)).toBe(best);
        }
      }),
      { numRuns: caseCount(60) },
    );
  });

  test("an order grown from an end of a chain is the chain", () => {
    const graph = cutGraphOf(
      [1, 1, 1, 1],
      [
        { a: 2, b: 0, weight: 3 },
        { a: 0, b: 3, weight: 3 },
        { a: 3, b: 1, weight: 3 },
      ],
    );
    const order = [...grownOrder(graph)];
    expect([order, [...order].reverse()]).toContainEqual([2, 0, 3, 1]);
  });
});
