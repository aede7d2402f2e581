/** @file Coarser graphs: weights are kept, pairs stay below the limit, and a cut weighs the same on both graphs. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import {
  agreement,
  coarsened,
  contracted,
  projected,
} from "../../../planning/parallelism/coarsen.ts";
import { cutGraphOf, cutWeight, type CutGraph } from "../../../planning/parallelism/cut-graph.ts";
import { smallGraphs } from "./cut-oracle.ts";

/** A row of nodes, each joined to the next. */
const chain = (count: number, weight = 1): CutGraph =>
  cutGraphOf(
    Array.from({ length: count }, () => 1),
    Array.from({ length: count - 1 }, (_, at) => ({ a: at, b: at + 1, weight })),
  );
const graph = chain(30, 2);

test("a cut of a coarser graph weighs the same on the finer one", () => {
  const coarse = coarsened(graph, 4, randomFrom(2));
  expect(coarse.graph.nodeCount).toBeLessThan(30);
  const parts = Int32Array.from({ length: coarse.graph.nodeCount }, (_, at) => at % 2);
  expect(cutWeight(graph, projected(coarse, parts))).toBe(cutWeight(coarse.graph, parts));
});

test("groups of an agreement lie in one part of either cut", () => {
  const a = Int32Array.from({ length: 30 }, (_, at) => (at < 15 ? 0 : 1));
  const b = Int32Array.from({ length: 30 }, (_, at) => (at < 10 ? 0 : 1));
  expect([...agreement(graph, a, b).groups]).toEqual(
    Array.from({ length: 30 }, (_, at) => (at < 10 ? 0 : at < 15 ? 1 : 2)),
  );
});

const graphs = smallGraphs({
  leastNodeWeight: 1,
  edgeWeight: fc.integer({ min: 1, max: 9 }),
  mostEdges: 14,
});
const total = (weights: Float64Array): number => weights.reduce((sum, weight) => sum + weight, 0);

test("matching joins pairs of neighbours up to the limit, and loses no weight", () => {
  fc.assert(
    fc.property(graphs, fc.integer({ min: 1, max: 8 }), (large, heaviest) => {
      const { graph: small, groups } = coarsened(large, heaviest, randomFrom(1));
      expect(total(small.nodeWeights)).toBe(total(large.nodeWeights));
      const sizes = new Map<number, number>();
      for (const group of groups) sizes.set(group, (sizes.get(group) ?? 0) + 1);
      for (const [group, size] of sizes) {
        expect(size).toBeLessThanOrEqual(2);
        if (size === 2) expect(small.nodeWeights[group]).toBeLessThanOrEqual(heaviest);
      }
    }),
  );
});

test("any grouping keeps the weight of every cut that does not part a group", () => {
  fc.assert(
    fc.property(
      graphs,
      fc.array(fc.nat({ max: 2 }), { minLength: 7, maxLength: 7 }),
      (large, of) => {
        const groups = Int32Array.from({ length: large.nodeCount }, (_, node) => of[node] ?? 0);
        const small = contracted(large, groups, 3);
        for (let cut = 0; cut < 8; cut += 1) {
          const parts = Int32Array.of(cut & 1, (cut >> 1) & 1, (cut >> 2) & 1);
          expect(cutWeight(small, parts)).toBe(
            cutWeight(large, projected({ graph: small, groups }, parts)),
          );
        }
      },
    ),
  );
});
