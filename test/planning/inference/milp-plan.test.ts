/** @file Planning by MILP: submodels one after the other, groups kept, and what happens when the solver is silent. */

import { describe, expect, it } from "vitest";
import { checkAnswer } from "../../../lib/milp.ts";
import { highsSolver } from "../../../solvers/index.ts";
import { adjustedCosts } from "../../../planning/inference/adjusted-costs.ts";
import { planOf } from "../../../planning/inference/decisions.ts";
import { estimator } from "../../../planning/inference/estimate.ts";
import { execute } from "../../../planning/inference/executor.ts";
import { chosenSlots, milpPlan, plainSlots } from "../../../planning/inference/milp-plan.ts";
import { submodelMilp } from "../../../planning/inference/milp.ts";
import { slotValues } from "../../../planning/inference/slot-values.ts";
import { submodels } from "../../../planning/inference/submodels.ts";
import { diamond, emptyState, grouped, silentSolver, whole } from "./milp-problems.ts";
import { tinyHost, tinyProblem } from "./problems.ts";

it("starts with all operations and parameters in the second slot of the fastest GPU", () => {
  const problem = tinyProblem(diamond.graph, tinyHost({ buses: [0, 1], slowdown: [2, 1] }));
  const made = submodelMilp(problem, whole, { state: emptyState, q: 4 });
  const start = plainSlots(problem, made);
  expect(start).toEqual(made.nodes.map(() => 4 + 2));
  expect(chosenSlots(made, slotValues(made, start))).toEqual(start);
});

it("starts on, off and on a GPU again in slots that stay contiguous", () => {
  const bound = grouped(diamond, [0, 1]);
  const state = { ...emptyState, gpuOf: new Map([[0, 1]]) };
  const made = submodelMilp(bound, { operations: [1, 2, 3], placeholders: [0] }, { state, q: 4 });
  const start = plainSlots(bound, made);
  // The result that is there, both parameters, the operation that is bound, and two on the fastest GPU.
  expect(start).toEqual([5, 2, 2, 6, 2, 2]);
});

it("tells how far it is before each submodel", async () => {
  const told: (readonly [number, number])[] = [];
  const onSubmodel = (done: number, of: number): void => void told.push([done, of]);
  await milpPlan(diamond, silentSolver, { q: 2, onSubmodel });
  expect(told).toEqual([
    [0, 2],
    [1, 2],
  ]);
});

describe("groups", () => {
  it("stay where an earlier submodel has put them, in the start as in the answer", async () => {
    const bound = grouped(diamond, [0, 2]);
    const [, second] = submodels(bound);
    const state = { ...emptyState, gpuOf: new Map([[0, 1]]) };
    const made = submodelMilp(bound, second ?? whole, { state, q: 4 });
    const start = slotValues(made, plainSlots(bound, made));
    expect(checkAnswer(made.milp, start)).toBeUndefined();
    const planned = await milpPlan(bound, silentSolver, { q: 4 });
    expect(planned.decisions.gpu[2]).toBe(planned.decisions.gpu[0]);
    expect(() => execute(bound, planOf(bound, planned.decisions))).not.toThrow();
  });
});

describe("planning by MILP", () => {
  it("hands the state on from submodel to submodel and gives a plan that runs", async () => {
    const planned = await milpPlan(diamond, highsSolver, { q: 2, timeLimitMs: 5000 });
    expect(planned.submodels.length).toBe(2);
    const { latencyMs } = execute(diamond, planOf(diamond, planned.decisions));
    expect(latencyMs).toBeLessThanOrEqual(planned.expectedMs * 1.001);
    const exact = estimator(adjustedCosts(diamond), { model: "milp" });
    expect(exact.latencyMs(planned.decisions)).toBeLessThanOrEqual(planned.expectedMs * 1.001);
  });

  it("says so when the solver gave nothing better than the warm start", async () => {
    const planned = await milpPlan(diamond, silentSolver, { q: 2 });
    // The first submodel is one kernel of 1 ms, while the copies of the second are under way.
    expect(planned.submodels.every(({ status }) => status === "start")).toBe(true);
    expect(planned.expectedMs).toBeCloseTo(10, 9);
    // On GPUs of half the pace: 5 ms of copies, then 10 ms of kernels.
    const slow = tinyProblem(diamond.graph, tinyHost({ buses: [0, 1], slowdown: [2, 2] }));
    expect((await milpPlan(slow, silentSolver, { q: 2 })).expectedMs).toBeCloseTo(15, 9);
  });
});
