/** @file The nodes and edges of a submodel: what is fixed, what is bound to a GPU, and who reads whom. */

import { describe, expect, it } from "vitest";
import {
  edgesOf,
  nodesOf,
  seriesHorizonMs,
  type SubmodelState,
} from "../../../planning/inference/milp-nodes.ts";
import { planningProblem } from "../../../planning/inference/problem.ts";
import { diamond, emptyState, grouped, whole } from "./milp-problems.ts";

/** The branches and their join, after the operation that they read. */
const later = { operations: [1, 2, 3], placeholders: [0] };
const placed: SubmodelState = { ...emptyState, gpuOf: new Map([[0, 1]]) };

describe("the nodes of a submodel", () => {
  it("are its parameters and its operations, free when nothing came before", () => {
    expect(nodesOf(diamond, whole, emptyState)).toEqual([
      { kind: "parameter", index: 0 },
      { kind: "parameter", index: 1 },
      ...[0, 1, 2, 3].map((index) => ({ kind: "operation", index })),
    ]);
  });

  it("begin with the results of earlier submodels, fixed where they are", () => {
    const [first, ...others] = nodesOf(diamond, later, placed);
    expect(first).toEqual({ kind: "operation", index: 0, fixedOn: 1 });
    expect(others.every(({ fixedOn }) => fixedOn === undefined)).toBe(true);
    expect(others).toHaveLength(5);
  });

  it.each<{ what: string; copied: [number, number][]; resident: number[]; want: unknown[] }>([
    { what: "was copied", copied: [[1, 1]], resident: [], want: [undefined, 1] },
    { what: "is resident", copied: [], resident: [0], want: [0, undefined] },
    { what: "is resident and was copied", copied: [[0, 1]], resident: [0], want: [1, undefined] },
  ])("hold a parameter that $what, fixed on its GPU", ({ copied, resident, want }) => {
    const problem = planningProblem(diamond.graph, diamond.host, {
      order: [0, 1, 2, 3],
      resident: resident.map((parameter) => ({ parameter, gpu: 0 })),
    });
    const nodes = nodesOf(problem, whole, { ...emptyState, parameterOn: new Map(copied) });
    expect(nodes.slice(0, 2).map(({ fixedOn }) => fixedOn)).toEqual(want);
  });

  it("are bound to the GPU of a placed member of their group", () => {
    const boundTo = nodesOf(grouped(diamond, [0, 2]), later, placed).map((node) => node.boundTo);
    expect(boundTo).toEqual([undefined, undefined, undefined, undefined, 1, undefined]);
  });
});

it("edges lead from parameters and inputs to their readers, none from outside", () => {
  const pairs = (submodel: typeof later): readonly string[] => {
    const nodes = nodesOf(diamond, submodel, placed);
    const nameOf = (at: number): string =>
      `${nodes[at]?.kind === "parameter" ? "w" : "o"}${nodes[at]?.index}`;
    return edgesOf(diamond, submodel, nodes).map(([u, v]) => `${nameOf(u)} ${nameOf(v)}`);
  };
  expect(pairs(later)).toEqual(["w0 o1", "o0 o1", "w1 o2", "o0 o2", "o1 o3", "o2 o3"]);
  expect(pairs({ ...later, placeholders: [] })).toEqual(["w0 o1", "w1 o2", "o1 o3", "o2 o3"]);
});

describe("the horizon", () => {
  it("is all work in series at its slowest, and a millisecond", () => {
    const nodes = nodesOf(diamond, whole, emptyState);
    // Kernels 1 and 1, two direct reads of 2 and 3 ms; 50 MB over a bus and two links; 7 MB of results over two links.
    const want = 1 + 2 + 3 + 1 + 50 * (0.1 + 2 * 0.02) + 7 * 2 * 0.02 + 1;
    expect(seriesHorizonMs(diamond, nodes, emptyState)).toBeCloseTo(want, 9);
  });

  it("begins when the last bus or GPU is free", () => {
    const nodes = nodesOf(diamond, whole, emptyState);
    const from = (state: Partial<SubmodelState>): number =>
      seriesHorizonMs(diamond, nodes, { ...emptyState, ...state });
    const none = from({});
    expect(from({ busFinMs: [3, 8] }) - none).toBeCloseTo(8, 9);
    expect(from({ busFinMs: [3, 8], gpuFinMs: [9, 0] }) - none).toBeCloseTo(9, 9);
  });
});
