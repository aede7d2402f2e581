/** @file Graphs that are cut: merged edges, weights and loads counted from scratch, and refusals of wrong cuts. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  capacitiesOf,
  checkCut,
  cutGraphOf,
  cutWeight,
  loadsOf,
} from "../../../planning/parallelism/cut-graph.ts";

const graph = cutGraphOf(
  [1, 2, 3],
  [
    { a: 0, b: 1, weight: 2 },
    { a: 1, b: 0, weight: 3 },
    { a: 2, b: 2, weight: 50 },
    { a: 1, b: 2, weight: 7 },
  ],
);

test("parallel edges are one, loops are none, and each edge stands at both ends", () => {
  expect([...graph.starts]).toEqual([0, 1, 3, 4]);
  expect([...graph.neighbours]).toEqual([1, 0, 2, 1]);
  expect([...graph.edgeWeights]).toEqual([5, 5, 7, 7]);
});

test("a cut weighs its edges between parts, a part its nodes", () => {
  const edge = fc.record({
    a: fc.nat({ max: 5 }),
    b: fc.nat({ max: 5 }),
    weight: fc.integer({ min: 0, max: 9 }),
  });
  const side = fc.array(fc.nat({ max: 2 }), { minLength: 6, maxLength: 6 });
  fc.assert(
    fc.property(fc.array(edge, { maxLength: 12 }), side, (edges, of) => {
      const parts = Int32Array.from(of);
      const any = cutGraphOf([1, 2, 3, 4, 5, 6], edges);
      const want = edges.reduce((sum, e) => sum + (of[e.a] === of[e.b] ? 0 : e.weight), 0);
      expect(cutWeight(any, parts)).toBe(want);
      const loads = [0, 1, 2].map((part) =>
        of.reduce((sum, own, node) => sum + (own === part ? node + 1 : 0), 0),
      );
      expect([...loadsOf(any, parts, 3)]).toEqual(loads);
    }),
  );
});

describe("a cut counts only when it is right", () => {
  test.each([
    { what: "right", parts: [0, 0, 1], weight: 7, capacities: [3, 3], isRight: true },
    { what: "a node short", parts: [0, 0], weight: 7, capacities: [3, 3], isRight: false },
    { what: "an unknown part", parts: [0, 0, 2], weight: 7, capacities: [3, 3], isRight: false },
    { what: "an overloaded part", parts: [0, 0, 1], weight: 7, capacities: [3, 2], isRight: false },
    { what: "another weight", parts: [0, 0, 1], weight: 6, capacities: [3, 3], isRight: false },
  ])("$what", ({ parts, weight, capacities, isRight }) => {
    const problem = checkCut(graph, { parts: Int32Array.from(parts), weight }, capacities);
    expect(problem === undefined).toBe(isRight);
  });
});

test.each([
  { weights: [1, 1, 1, 1], shares: [1, 1], slack: 0, want: [2, 2] },
  { weights: [1, 1, 1, 1, 1], shares: [1, 1], slack: 0.5, want: [4, 4] },
  { weights: [0.5, 1], shares: [2, 1], slack: 0.1, want: [1.1, 0.55] },
])("capacities of $weights by $shares with slack $slack", ({ weights, shares, slack, want }) => {
  const found = capacitiesOf(cutGraphOf(weights, []), shares, slack);
  expect(found).toHaveLength(want.length);
  for (const [at, each] of want.entries()) expect(found[at]).toBeCloseTo(each, 9);
});
