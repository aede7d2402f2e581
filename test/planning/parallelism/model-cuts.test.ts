/** @file Parts of the cuts of models' graphs: bound groups, nodes without weight, joined edges, and slack where nothing packs. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { boundGroups } from "../../../planning/parallelism/bound-groups.ts";
import { projected } from "../../../planning/parallelism/coarsen.ts";
import {
  capacitiesOf,
  checkCut,
  cutGraphOf,
  cutWeight,
  type CutGraph,
} from "../../../planning/parallelism/cut-graph.ts";
import { cutGraph } from "../../../planning/parallelism/cut.ts";
import { edgesOf, joinedEdges } from "../../../planning/parallelism/joined-edges.ts";
import { isImpossible, packableCapacities } from "../../../bench/rivals/parallelism/least-slack.ts";
import { withoutWeightless } from "../../../planning/parallelism/weightless.ts";
import { lightest, smallGraphs } from "./cut-oracle.ts";
import { caseCount } from "../../support/case-count.ts";

const row = (weights: readonly number[], edges: readonly number[]): CutGraph =>
  cutGraphOf(
    weights,
    edges.map((weight, a) => ({ a, b: a + 1, weight })),
  );

const smallGraph = smallGraphs({
  leastNodeWeight: 0,
  edgeWeight: fc.constantFrom(1, 2, 5, 1000, 1e8),
  mostEdges: 10,
});
const someCapacities = fc.array(fc.integer({ min: 3, max: 12 }), { minLength: 2, maxLength: 3 });

describe("bound groups", () => {
  test("keep the heaviest edges together as long as the groups pack", () => {
    const graph = row([2, 2, 2, 2, 2, 2], [1000, 1, 1000, 1, 1000]);
    const bound = boundGroups(graph, [4, 8], { random: randomFrom(1), mostJoint: 1 });
    if (bound === undefined) throw new Error("none");
    const parts = projected(bound, bound.parts);
    expect([parts[0] === parts[1], parts[2] === parts[3], parts[4] === parts[5]]).toEqual([
      true,
      true,
      true,
    ]);
  });

  test("none weighs more than its share of the largest part, and their packing holds", () => {
    fc.assert(
      fc.property(smallGraph, someCapacities, (graph, capacities) => {
        const bound = boundGroups(graph, capacities, { random: randomFrom(1), mostJoint: 0.5 });
        if (bound === undefined) return;
        const parts = projected(bound, bound.parts);
        const weight = cutWeight(graph, parts);
        expect(checkCut(graph, { parts, weight }, capacities)).toBeUndefined();
        const heaviest = Math.max(...graph.nodeWeights);
        for (const joint of bound.graph.nodeWeights)
          expect(joint).toBeLessThanOrEqual(Math.max(heaviest, Math.max(...capacities) / 2));
      }),
      { numRuns: caseCount(100) },
    );
  });
});

test("joining nodes without weight never loses the lightest cut", () => {
  fc.assert(
    fc.property(smallGraph, someCapacities, (graph, capacities) => {
      const joined = withoutWeightless(graph);
      if (joined === undefined) return;
      expect(joined.graph.nodeCount).toBeLessThan(graph.nodeCount);
      expect(lightest(joined.graph, capacities)).toBe(lightest(graph, capacities));
    }),
    { numRuns: caseCount(150) },
  );
});

test("edges are joined in their order, within one part and below the limit, until few groups are left", () => {
  const graph = row([1, 1, 1, 1, 1], [4, 3, 2, 1]);
  const groupsOf = (limits: Parameters<typeof joinedEdges>[2]): readonly number[] => [
    ...joinedEdges(graph, edgesOf(graph), limits).groups,
  ];
  expect(groupsOf({ most: 5 })).toEqual([0, 0, 0, 0, 0]);
  expect(groupsOf({ most: 2 })).toEqual([0, 0, 1, 1, 2]);
  expect(groupsOf({ most: 5, fewest: 3 })).toEqual([0, 0, 0, 1, 2]);
  expect(groupsOf({ most: 5, within: Int32Array.of(0, 0, 1, 1, 1) })).toEqual([0, 0, 1, 1, 1]);
});

describe("slack where nothing packs", () => {
  const slackOf = (weights: readonly number[], shares: readonly number[]) =>
    packableCapacities(cutGraphOf(weights, []), shares, { slack: 0.03, random: randomFrom(1) });

  test.each([
    { what: "what packs keeps its 3 %", weights: [5, 5, 5, 5], shares: [1, 1], want: 0.03 },
    { what: "a node heavier than a part", weights: [9, 1, 1, 1], shares: [1, 1], want: 0.5 },
    { what: "three alike in two parts", weights: [4.5, 4.5, 4.5], shares: [1, 1], want: 0.34 },
    { what: "more parts than nodes", weights: [1.5, 1.5], shares: [1, 1, 1, 1], want: 1 },
    { what: "nothing weighs anything", weights: [0, 0], shares: [1, 1], want: 0.03 },
  ])("$what: $want", ({ weights, shares, want }) => {
    const { slack, capacities, impossibleAt } = slackOf(weights, shares);
    expect(slack).toBeCloseTo(want, 9);
    expect(isImpossible(weights, capacities)).toBe(false);
    expect(impossibleAt).toBe(
      want > 0.03 ? Math.max(0.03, Math.round(100 * want - 1) / 100) : undefined,
    );
  });

  test("it is proven impossible exactly where no way to place the nodes exists", () => {
    fc.assert(
      fc.property(smallGraph, someCapacities, (graph, capacities) => {
        const weights = [...graph.nodeWeights].sort((a, b) => b - a);
        expect(isImpossible(weights, capacities)).toBe(lightest(graph, capacities) === undefined);
      }),
      { numRuns: caseCount(100) },
    );
  });
});

describe("graphs of any kind get a cut that holds", () => {
  const spread = (count: number): readonly number[] =>
    Array.from({ length: count }, (_, at) => 10 ** ((at * 7) % 9));
  const star = (leaves: number): CutGraph =>
    cutGraphOf(
      Array.from({ length: leaves + 1 }, () => 1),
      Array.from({ length: leaves }, (_, at) => ({ a: 0, b: at + 1, weight: 1 })),
    );
  test.each([
    { name: "weights over eight orders", graph: row(spread(60), spread(59)), parts: 4 },
    {
      name: "no weight at all",
      graph: row(
        Array.from({ length: 9 }, () => 0),
        spread(8),
      ),
      parts: 3,
    },
    { name: "no edge", graph: cutGraphOf([1, 2, 3, 4, 5, 6], []), parts: 3 },
    { name: "edges without weight", graph: row([1, 1, 1, 1], [0, 0, 0]), parts: 2 },
    {
      name: "two that do not touch",
      graph: cutGraphOf([1, 1, 1, 1], [{ a: 0, b: 1, weight: 2 }]),
      parts: 2,
    },
    { name: "a star", graph: star(40), parts: 4 },
    { name: "one node", graph: cutGraphOf([3], []), parts: 4 },
    { name: "more parts than nodes", graph: row([1, 1, 1], [1, 1]), parts: 16 },
  ])("$name", ({ graph, parts }) => {
    const shares = Array.from({ length: parts }, () => 1);
    const { capacities } = packableCapacities(graph, shares, {
      slack: 0.03,
      random: randomFrom(1),
    });
    const effort = { steps: 60, population: 3, children: 3 };
    const answer = cutGraph(graph, { capacities, random: randomFrom(1), effort });
    if (answer.kind === "blocked") throw new Error(answer.message);
    expect(checkCut(graph, answer.pick, capacities)).toBeUndefined();
  });

  test("capacities at a slack say nothing of nodes", () => {
    expect(capacitiesOf(cutGraphOf([9, 1], []), [1, 1], 0)).toEqual([5, 5]);
  });
});
