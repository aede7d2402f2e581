/** @file Cycles of segments: the lightest cut where all can be tried, and no worse than the cuts that they were given. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { checkCut, cutGraphOf } from "../../../planning/parallelism/cut-graph.ts";
import { segmentCycles } from "../../../planning/parallelism/segment-cycles.ts";
import { lightest, smallGraphs } from "./cut-oracle.ts";
import { caseCount } from "../../support/case-count.ts";

const smallGraph = smallGraphs({
  leastNodeWeight: 0,
  edgeWeight: fc.constantFrom(1, 2, 5, 1000, 1e8),
  mostEdges: 10,
});
const someCapacities = fc.array(fc.integer({ min: 3, max: 12 }), { minLength: 2, maxLength: 3 });

describe("cycles of segments", () => {
  test("find the lightest cut where all can be tried, and never one that does not hold", () => {
    fc.assert(
      fc.property(smallGraph, someCapacities, (graph, capacities) => {
        const best = lightest(graph, capacities);
        const [found] = segmentCycles(graph, [], {
          capacities,
          random: randomFrom(1),
          steps: 60_000,
        });
        if (best === undefined || found === undefined) return;
        expect(checkCut(graph, found, capacities)).toBeUndefined();
        expect(found.weight).toBeCloseTo(best, 6);
      }),
      { numRuns: caseCount(40) },
    );
  });

  test("keep what they were given where nothing is better", () => {
    const graph = cutGraphOf(
      [1, 1, 1, 1],
      [
        { a: 0, b: 1, weight: 5 },
        { a: 1, b: 2, weight: 1 },
        { a: 2, b: 3, weight: 5 },
      ],
    );
    const start = { parts: Int32Array.of(0, 0, 1, 1), weight: 1 };
    const [best] = segmentCycles(graph, [start], {
      capacities: [2, 2],
      random: randomFrom(1),
      steps: 20_000,
    });
    expect(best?.weight).toBe(1);
  });
});
