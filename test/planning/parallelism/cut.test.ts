/** @file Cuts of graphs: the lightest of all where all can be tried, capacities always, and what does not fit. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import {
  capacitiesOf,
  checkCut,
  cutGraphOf,
  type CutGraph,
} from "../../../planning/parallelism/cut-graph.ts";
import { cutGraph } from "../../../planning/parallelism/cut.ts";
import { packParts } from "../../../planning/parallelism/pack-parts.ts";
import { lightest, smallGraphs } from "./cut-oracle.ts";
import { caseCount } from "../../support/case-count.ts";

const QUICK = { steps: 60, population: 3, children: 3 };
const request = (capacities: readonly number[], seed = 1) => ({
  capacities,
  random: randomFrom(seed),
  effort: QUICK,
});

/** A row of nodes, each joined to the next. */
const chain = (count: number, weight = 1): CutGraph =>
  cutGraphOf(
    Array.from({ length: count }, () => 1),
    Array.from({ length: count - 1 }, (_, at) => ({ a: at, b: at + 1, weight })),
  );

const anyGraph = smallGraphs({
  leastNodeWeight: 1,
  edgeWeight: fc.integer({ min: 1, max: 9 }),
  mostEdges: 14,
});

test("it is the lightest cut of all wherever all can be tried", () => {
  fc.assert(
    fc.property(
      anyGraph,
      fc.array(fc.integer({ min: 3, max: 12 }), { minLength: 2, maxLength: 3 }),
      (graph, capacities) => {
        const best = lightest(graph, capacities);
        const answer = cutGraph(graph, request(capacities));
        if (answer.kind === "blocked") expect(best).toBeUndefined();
        else {
          expect(checkCut(graph, answer.pick, capacities)).toBeUndefined();
          expect(answer.pick.weight).toBeCloseTo(best ?? NaN, 6);
        }
      },
    ),
    { numRuns: caseCount(150) },
  );
});

test.each([
  { parts: 2, wantWeight: 1 },
  { parts: 4, wantWeight: 3 },
  { parts: 8, wantWeight: 7 },
])("a chain of 64 in $parts parts is cut $wantWeight times", ({ parts, wantWeight }) => {
  const graph = chain(64);
  const capacities = capacitiesOf(
    graph,
    Array.from({ length: parts }, () => 1),
    0.03,
  );
  const answer = cutGraph(graph, { capacities, random: randomFrom(1) });
  expect(answer).toMatchObject({ kind: "cut", pick: { weight: wantWeight } });
});

test("a graph of 6,000 nodes is shrunk first, and its cut holds", () => {
  const graph = chain(6_000);
  const capacities = capacitiesOf(graph, [1, 1, 1, 1], 0.03);
  const answer = cutGraph(graph, request(capacities));
  if (answer.kind === "blocked") throw new Error(answer.message);
  expect(checkCut(graph, answer.pick, capacities)).toBeUndefined();
  expect(answer.pick.weight).toBeLessThanOrEqual(12);
});

test("the same request has the same answer", () => {
  const graph = chain(40);
  const capacities = capacitiesOf(graph, [3, 2, 1], 0.05);
  expect(cutGraph(graph, request(capacities))).toEqual(cutGraph(graph, request(capacities)));
});

test("parts of uneven sizes get what their shares say", () => {
  const graph = chain(64);
  const shares = [2, 2, 2, 2, 2, 4, 1, 1];
  const capacities = capacitiesOf(graph, shares, 0.03);
  expect(capacities).toEqual([8, 8, 8, 8, 8, 16, 4, 4]);
  const answer = cutGraph(graph, { capacities, random: randomFrom(1) });
  expect(answer).toMatchObject({ kind: "cut", pick: { weight: 7 } });
});

test("what does not fit says which node lacks how much", () => {
  const graph = cutGraphOf([5, 1, 1], []);
  const answer = cutGraph(graph, request([4, 4]));
  expect(answer).toMatchObject({ kind: "blocked" });
  expect(answer.kind === "blocked" ? answer.message : "").toMatch(/node 0 of weight 5 lacks 1/);
});

describe("packing", () => {
  test("fills parts exactly where heaviest first fails", () => {
    const tight = cutGraphOf([4, 4, 4, 3, 3, 3, 3], []);
    expect(packParts(tight, [12, 12], randomFrom(1))).toMatchObject({ kind: "packed" });
  });
});
