/** @file Labelled graphs of operators: orders, cycles and components, against plain definitions on small drawn graphs. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  componentsOf,
  cycleIn,
  labelledGraph,
  topologicalOrder,
  type NumberedEdge,
} from "../../../domain/model/labelled-graph.ts";

const COUNT = 7;
const node = fc.nat({ max: COUNT - 1 });
const edges = fc.array(fc.record({ from: node, to: node }), { maxLength: 12 });
const graphOf = (list: readonly NumberedEdge[]) => labelledGraph(COUNT, list);

/** Whether a path of at least one edge leads from a node to itself. */
function isCyclic(list: readonly NumberedEdge[]): boolean {
  const reached = Array.from({ length: COUNT }, () => new Set<number>());
  for (let round = 0; round < COUNT; round += 1)
    for (const { from, to } of list) {
      reached[from]?.add(to);
      for (const next of reached[to] ?? []) reached[from]?.add(next);
    }
  return reached.some((own, at) => own.has(at));
}

describe("topological order", () => {
  test("ties go to the lower number, then to the earlier edge", () => {
    const list = [
      { from: 2, to: 5 },
      { from: 2, to: 4 },
      { from: 0, to: 3 },
    ];
    expect(topologicalOrder(labelledGraph(6, list)).order).toEqual([0, 1, 2, 3, 5, 4]);
  });

  test("a node waits for the last of its parallel edges", () => {
    const list = [
      { from: 0, to: 1 },
      { from: 0, to: 2 },
      { from: 0, to: 1 },
    ];
    expect(topologicalOrder(labelledGraph(3, list)).order).toEqual([0, 2, 1]);
  });

  test("every edge between ordered nodes goes forward, and no node of a cycle is ordered", () => {
    fc.assert(
      fc.property(edges, (list) => {
        const { order, left } = topologicalOrder(graphOf(list));
        expect([...order, ...left].sort((a, b) => a - b)).toEqual([...Array(COUNT).keys()]);
        const placeOf = new Map(order.map((each, place) => [each, place]));
        for (const { from, to } of list)
          if (placeOf.has(to)) expect(placeOf.get(from)).toBeLessThan(placeOf.get(to) ?? NaN);
        expect(left.length > 0).toBe(isCyclic(list));
      }),
    );
  });
});

test("a cycle is a closed walk along edges, and is there exactly when the graph has one", () => {
  fc.assert(
    fc.property(edges, (list) => {
      const cycle = cycleIn(graphOf(list));
      expect(cycle !== undefined).toBe(isCyclic(list));
      if (cycle === undefined) return;
      expect(cycle[0]).toBe(cycle.at(-1));
      expect(cycle.length).toBeGreaterThan(1);
      for (const [at, from] of cycle.slice(0, -1).entries())
        expect(list).toContainEqual({ from, to: cycle[at + 1] });
    }),
  );
});

test("components part the nodes, and no edge leaves its component", () => {
  fc.assert(
    fc.property(edges, (list) => {
      const parts = componentsOf(graphOf(list));
      expect(parts.flat().sort((a, b) => a - b)).toEqual([...Array(COUNT).keys()]);
      const firsts = parts.map(([first = NaN]) => first);
      expect(firsts).toEqual([...firsts].sort((a, b) => a - b));
      const partOf = (each: number): number => parts.findIndex((part) => part.includes(each));
      for (const { from, to } of list) expect(partOf(from)).toBe(partOf(to));
      // With e edges there are at least COUNT − e components, so parts are not joined without an edge.
      const joins = new Set(
        list.filter(({ from, to }) => from !== to).map((e) => JSON.stringify(e)),
      );
      expect(parts.length).toBeGreaterThanOrEqual(COUNT - joins.size);
    }),
  );
});
