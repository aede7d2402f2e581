/** @file A plan that a solver may better: never worse, whatever the solver answers, with a gap that holds for every plan. */

import { describe, expect, it } from "vitest";
import type { MilpSolver } from "../../../lib/milp.ts";
import { allOn, planOf } from "../../../planning/inference/decisions.ts";
import { estimator } from "../../../planning/inference/estimate.ts";
import { execute } from "../../../planning/inference/executor.ts";
import { polishPlan } from "../../../planning/inference/polish.ts";
import type { PlanningProblem } from "../../../planning/inference/problem.ts";
import { searchPlan } from "../../../planning/inference/search.ts";
import { highsSolver } from "../../../solvers/index.ts";
import { tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

/** Four branches of two operations each, on two GPUs with a bus each. */
const problem = tinyProblem(
  tinyGraph(
    Array.from({ length: 8 }, (_, at) => ({
      kernelMs: 2,
      parameters: [at],
      inputs: at % 2 === 0 ? [] : [at - 1],
      outputMB: 1,
    })),
    Array.from({ length: 8 }, () => 40),
  ),
  tinyHost({ buses: [0, 1], memoryGiB: 1 }),
);

function onOneGpu(of: PlanningProblem) {
  const decisions = allOn(of, 0);
  return {
    decisions,
    plan: planOf(of, decisions),
    expectedMs: estimator(of).latencyMs(decisions),
  };
}
const silent: MilpSolver = {
  name: "silent",
  solve: async () => ({ status: "no-answer", reason: "it says nothing" }),
};
const plenty = { remainingMs: () => 1_500 };

describe("a polished plan", () => {
  it("is faster than one on a single GPU, and says by how much", async () => {
    const start = onOneGpu(problem);
    const polished = await polishPlan(problem, start, { solver: highsSolver, ...plenty });
    expect(polished.formerMs).toBe(execute(problem, start.plan).latencyMs);
    expect(polished.simulatedMs).toBeLessThan(polished.formerMs);
    expect(polished.simulatedMs).toBe(execute(problem, polished.plan).latencyMs);
    expect(polished.gap).toBeGreaterThanOrEqual(0);
    expect(polished.gap).toBeLessThan(1);
    expect(polished.proven).toBeLessThanOrEqual(polished.submodels);
  });

  it.each([
    ["a solver that answers", highsSolver, plenty],
    ["a solver that says nothing", silent, plenty],
    ["no time", highsSolver, { remainingMs: () => -1 }],
  ])("is never worse than a good one, with %s", async (_name, solver, time) => {
    const found = searchPlan(problem);
    if (found.kind !== "planned") throw new Error(found.message);
    const polished = await polishPlan(problem, found, { solver, ...time });
    expect(polished.simulatedMs).toBeLessThanOrEqual(polished.formerMs);
    expect(polished.formerMs).toBe(execute(problem, found.plan).latencyMs);
  });

  it("proves nothing without time for its MILPs", async () => {
    const polished = await polishPlan(problem, onOneGpu(problem), {
      solver: highsSolver,
      remainingMs: () => -1,
    });
    expect(polished.proven).toBe(0);
  });
});
