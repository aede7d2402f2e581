/** @file Submodels for the tests of the MILP. */

import type { MilpSolver } from "../../../lib/milp.ts";
import type { SubmodelState } from "../../../planning/inference/milp-nodes.ts";
import type { PlanningProblem } from "../../../planning/inference/problem.ts";
import { tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

/** Two branches with a parameter each, on two GPUs behind buses of their own. */
export const diamond = tinyProblem(
  tinyGraph(
    [
      { kernelMs: 1, outputMB: 2 },
      { kernelMs: 2, inputs: [0], parameters: [0], outputMB: 2 },
      { kernelMs: 2, inputs: [0], parameters: [1], outputMB: 2 },
      { kernelMs: 1, inputs: [1, 2], outputMB: 1 },
    ],
    [20, 30],
  ),
  tinyHost({ buses: [0, 1] }),
);

/** All of the diamond as one submodel. */
export const whole = { operations: [0, 1, 2, 3], placeholders: [] };

/** Nothing is busy or placed on two GPUs with two buses. */
export const emptyState: SubmodelState = {
  busFinMs: [0, 0],
  gpuFinMs: [0, 0],
  heldBytes: [0, 0],
  gpuOf: new Map(),
  parameterOn: new Map(),
};

/** The same problem with these operations in one group. */
export function grouped(problem: PlanningProblem, at: readonly number[]): PlanningProblem {
  const operations = problem.graph.operations.map((operation, index) =>
    at.includes(index) ? { ...operation, group: "twins" } : operation,
  );
  return tinyProblem({ ...problem.graph, operations }, problem.host);
}

export const silentSolver: MilpSolver = {
  name: "silent",
  solve: () => Promise.resolve({ status: "no-answer", reason: "no time" }),
};
