/** @file Annealing: the reported weight is that of the cut, the cut holds, and on small graphs it is the lightest of all. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { annealCut, lightness } from "../../../planning/parallelism/anneal-cut.ts";
import {
  checkCut,
  cutGraphOf,
  cutWeight,
  type CutGraph,
} from "../../../planning/parallelism/cut-graph.ts";
import { lightest, smallGraphs } from "./cut-oracle.ts";
import { caseCount } from "../../support/case-count.ts";

/** A row of nodes, each joined to the next. */
const chain = (count: number, weight = 1): CutGraph =>
  cutGraphOf(
    Array.from({ length: count }, () => 1),
    Array.from({ length: count - 1 }, (_, at) => ({ a: at, b: at + 1, weight })),
  );
const graph = chain(30, 2);

test("annealing reports the weight that its best cut has", () => {
  const start = Int32Array.from({ length: 30 }, (_, at) => at % 3);
  const { best, bestWeight } = annealCut(graph, start, {
    capacities: [10, 10, 10],
    schedule: { steps: 50_000, hottest: 2, coldest: 0.1 },
    random: randomFrom(3),
  });
  expect(cutWeight(graph, best ?? start)).toBeCloseTo(bestWeight, 6);
  expect(bestWeight).toBeCloseTo(4, 6);
});

test("a long walk on a small graph finds the lightest cut that holds, or none", () => {
  const graphs = smallGraphs({
    leastNodeWeight: 1,
    edgeWeight: fc.integer({ min: 1, max: 9 }),
    mostEdges: 12,
  });
  const capacities = fc.array(fc.integer({ min: 4, max: 12 }), { minLength: 2, maxLength: 3 });
  fc.assert(
    fc.property(graphs, capacities, (small, most) => {
      fc.pre(small.neighbours.length > 0);
      const { best, bestWeight, last } = annealCut(small, new Int32Array(small.nodeCount), {
        capacities: most,
        schedule: { steps: 30_000, hottest: 2, coldest: 0.05 },
        random: randomFrom(1),
      });
      expect(last).toHaveLength(small.nodeCount);
      const wanted = lightest(small, most);
      if (wanted === undefined) expect(best).toBeUndefined();
      if (best === undefined) return;
      expect(
        checkCut(small, { parts: best, weight: cutWeight(small, best) }, most),
      ).toBeUndefined();
      expect(bestWeight).toBeCloseTo(cutWeight(small, best), 6);
      expect(bestWeight).toBeCloseTo(wanted ?? NaN, 6);
    }),
    { numRuns: caseCount(40) },
  );
});

test("the same start, schedule and random numbers give the same walk", () => {
  const walk = () =>
    annealCut(
      graph,
      Int32Array.from({ length: 30 }, (_, at) => at % 3),
      {
        capacities: [11, 11, 11],
        schedule: { steps: 5_000, hottest: 2, coldest: 0.1 },
        random: randomFrom(7),
      },
    );
  expect(walk()).toEqual(walk());
});

test.each([
  { weights: [1, 1, 1, 1], want: 1 },
  { weights: [1, 1, 1, 97], want: 1 / 25 },
  { weights: [1e-9, 1e-9, 1e-9, 1], want: 1e-3 },
])("the lightness of $weights is $want", ({ weights, want }) => {
  expect(lightness(Float64Array.from(weights))).toBeCloseTo(want, 9);
});
