/** @file The state of an annealing walk: after any moves and swaps its figures are those counted from scratch. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { annealState } from "../../../planning/parallelism/anneal-state.ts";
import { cutWeight, loadsOf } from "../../../planning/parallelism/cut-graph.ts";
import { smallGraphs } from "./cut-oracle.ts";

const graphs = smallGraphs({
  leastNodeWeight: 1,
  edgeWeight: fc.integer({ min: 1, max: 9 }),
  mostEdges: 14,
});
const PARTS = 3;
const CAPACITIES = [5, 6, 7];
const step = fc.record({
  node: fc.nat({ max: 6 }),
  other: fc.nat({ max: 6 }),
  to: fc.nat({ max: 2 }),
});

test("gains, prices, members and weights follow every step", () => {
  fc.assert(
    fc.property(graphs, fc.array(step, { maxLength: 12 }), (graph, steps) => {
      fc.pre(graph.neighbours.length > 0);
      const start = Int32Array.from({ length: graph.nodeCount }, (_, node) => node % PARTS);
      const state = annealState(graph, start, { capacities: CAPACITIES, priceFactor: 1 });
      const { parts, edgeScale, nodeWeights } = state;
      const weightOf = (of: Int32Array): number => cutWeight(graph, of) * edgeScale;
      const scale = (nodeWeights[0] ?? 1) / (graph.nodeWeights[0] ?? 1);
      const overloadOf = (of: Int32Array): number =>
        loadsOf(graph, of, PARTS).reduce(
          (sum, load, part) => sum + Math.max(0, load - (CAPACITIES[part] ?? 0)) * scale,
          0,
        );
      expect(state.cut).toBeCloseTo(weightOf(start), 9);
      expect(state.overload).toBeCloseTo(overloadOf(start), 9);
      for (const { node, other, to } of steps) {
        if (node >= graph.nodeCount || other >= graph.nodeCount) continue;
        const before = parts.slice();
        const from = parts[node] ?? 0;
        const second = parts[other] ?? 0;
        if (to !== from) {
          const gain = state.pullOf(node, to) - state.pullOf(node, from);
          const price = state.priceOf(from, to, nodeWeights[node] ?? 0);
          state.move(node, to);
          expect(weightOf(before) - gain).toBeCloseTo(weightOf(parts), 9);
          expect(overloadOf(before) + price).toBeCloseTo(overloadOf(parts), 9);
        } else if (second !== from) {
          state.swap(node, other);
          expect([parts[node], parts[other]]).toEqual([second, from]);
        }
        for (let part = 0; part < PARTS; part += 1) {
          const members = [...parts].flatMap((own, at) => (own === part ? [at] : []));
          const count = state.memberCounts[part] ?? 0;
          const listed = Array.from({ length: count }, (_, at) => state.memberAt(part, at));
          expect(listed.sort((a, b) => a - b)).toEqual(members);
        }
      }
    }),
  );
});
