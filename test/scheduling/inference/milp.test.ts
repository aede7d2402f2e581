/** @file The MILP of SortingHat §3.3: the order of figure 7, the equations, and agreement with a solver's answers. */

import { describe, expect, it } from "vitest";
import { checkAnswer } from "../../../lib/milp.ts";
import { highsSolver } from "../../../solvers/index.ts";
import { adjustedCosts } from "../../../scheduling/inference/adjusted-costs.ts";
import { estimator } from "../../../scheduling/inference/estimate.ts";
import { execute } from "../../../scheduling/inference/executor.ts";
import { allOn, planOf } from "../../../scheduling/inference/decisions.ts";
import { chosenSlots, milpPlan, plainSlots } from "../../../scheduling/inference/milp-plan.ts";
import { slotsFor } from "../../../scheduling/inference/milp-slots.ts";
import { submodelMilp, type SubmodelState } from "../../../scheduling/inference/milp.ts";
import { searchPlan } from "../../../scheduling/inference/search.ts";
import { submodels } from "../../../scheduling/inference/submodels.ts";
import { slotValues } from "../../../scheduling/inference/slot-values.ts";
import { tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

const graph = tinyGraph(
  [
    { kernelMs: 1, outputMB: 2 },
    { kernelMs: 2, inputs: [0], parameters: [0], outputMB: 2 },
    { kernelMs: 2, inputs: [0], parameters: [1], outputMB: 2 },
    { kernelMs: 1, inputs: [1, 2], outputMB: 1 },
  ],
  [20, 30],
);
const problem = tinyProblem(graph, tinyHost({ buses: [0, 1] }));
const empty: SubmodelState = {
  busFinMs: [0, 0],
  gpuFinMs: [0, 0],
  heldBytes: [0, 0],
  gpuOf: new Map(),
  parameterOn: new Map(),
};
const whole = { operations: [0, 1, 2, 3], placeholders: [] };

/** Small enough for a solver to close at once, on a busy machine too. */
const small = tinyProblem(
  tinyGraph(
    [
      { kernelMs: 2, parameters: [0], outputMB: 1 },
      { kernelMs: 2, parameters: [1], outputMB: 1 },
      { kernelMs: 1, inputs: [0, 1] },
    ],
    [20, 20],
  ),
  tinyHost({ buses: [0, 1] }),
);
const settings = { state: empty, q: 2, horizonMs: 12 };

describe("the slots of figure 7", () => {
  it("are served in turn: slot 5 copies after slot 1, slot 2 after slot 5", () => {
    const slots = slotsFor([0, 0, 1, 1], 4);
    expect(slots.parentDt.get(5)).toBe(1);
    expect(slots.parentDt.get(2)).toBe(5);
    expect(slots.parentDt.has(1)).toBe(false);
    expect(slots.parentDt.has(9)).toBe(false);
    expect(slots.parentDt.get(13)).toBe(9);
    expect(slots.gpuOf(9)).toBe(2);
    expect(slots.busOf(16)).toBe(1);
  });
});

describe("the MILP of a submodel", () => {
  it("has a row for each of its equations", () => {
    const { milp } = submodelMilp(problem, whole, { state: empty, q: 2 });
    const numbers = new Set(milp.rows.map(({ name }) => /^\((\d+)\)/.exec(name)?.[1]));
    // (1) is the objective; (3) needs fixed nodes and (13) two GPUs on a bus or a second slot.
    for (let equation = 2; equation <= 23; equation += 1)
      if (equation !== 3) expect(numbers).toContain(String(equation));
  });

  it("is satisfied by everything on one GPU, whose latency is reckoned by hand", () => {
    const made = submodelMilp(problem, whole, { state: empty, q: 2 });
    const values = slotValues(made, plainSlots(problem, made));
    expect(checkAnswer(made.milp, values)).toBeUndefined();
    const total = made.milp.variables.findIndex(({ name }) => name === "TotalLatency");
    // 50 MB over 10 GB/s, then 6 ms of kernels: one slot waits for all of its parameters.
    expect(values[total]).toBeCloseTo(11, 9);
  });

  it("agrees with HiGHS: the answer's slots give its objective, and the search is no worse", async () => {
    const made = submodelMilp(small, { operations: [0, 1, 2], placeholders: [] }, settings);
    const answer = await highsSolver.solve(made.milp, { timeLimitMs: 30_000, relativeGap: 0 });
    if (answer.status !== "optimal" && answer.status !== "feasible") throw new Error(answer.status);
    const values = slotValues(made, chosenSlots(made, answer.values));
    expect(checkAnswer(made.milp, values)).toBeUndefined();
    const total = made.milp.variables.findIndex(({ name }) => name === "TotalLatency");
    expect(values[total]).toBeLessThanOrEqual(answer.objective * 1.000_01);
    const searched = searchPlan(adjustedCosts(small), { model: "milp", estimates: 4000 });
    if (searched.kind !== "planned") throw new Error(searched.message);
    expect(searched.expectedMs).toBeLessThanOrEqual(answer.objective * 1.000_01);
  }, 120_000);
});

describe("groups in the MILP", () => {
  const twins = (problem: typeof small, at: readonly number[]) => {
    const operations = problem.graph.operations.map((operation, index) =>
      at.includes(index) ? { ...operation, group: "twins" } : operation,
    );
    return tinyProblem({ ...problem.graph, operations }, problem.host);
  };

  it("lie on one GPU in the optimum, at what exhaustive search finds", async () => {
    const pair = tinyProblem(
      tinyGraph(
        [
          { kernelMs: 2, parameters: [0], outputMB: 1 },
          { kernelMs: 2, parameters: [1], outputMB: 1 },
        ],
        [20, 20],
      ),
      tinyHost({ buses: [0, 1] }),
    );
    const optimum = async (of: typeof pair): Promise<readonly [number, number]> => {
      const made = submodelMilp(
        of,
        { operations: [0, 1], placeholders: [] },
        { ...settings, horizonMs: 9 },
      );
      const answer = await highsSolver.solve(made.milp, { timeLimitMs: 30_000, relativeGap: 0 });
      if (answer.status !== "optimal") throw new Error(answer.status);
      const slotOf = chosenSlots(made, answer.values);
      const gpus = made.nodes.flatMap(({ kind }, v) =>
        kind === "operation" ? [made.slots.gpuOf(slotOf[v] ?? 0)] : [],
      );
      return [answer.objective, new Set(gpus).size];
    };
    const bound = twins(pair, [0, 1]);
    const { latencyMs } = estimator(adjustedCosts(bound), { model: "milp" });
    let best = Infinity;
    for (const gpu of [0, 1])
      for (let draw = 0; draw < 4 ** 2; draw += 1) {
        const decisions = allOn(bound, gpu);
        decisions.landing.set([0, 1].map((at) => (Math.floor(draw / 4 ** at) % 4) - 2));
        best = Math.min(best, latencyMs(decisions));
      }
    // Apart: 2 ms of copy and 2 ms of kernel each, side by side.
    expect(await optimum(pair)).toEqual([expect.closeTo(4, 6), 2]);
    expect(await optimum(bound)).toEqual([expect.closeTo(best, 6), 1]);
  }, 120_000);

  it("stay where an earlier submodel has put them, in the start as in the answer", async () => {
    const bound = twins(problem, [0, 2]);
    const [, second] = submodels(bound);
    const state = { ...empty, gpuOf: new Map([[0, 1]]) };
    const made = submodelMilp(bound, second ?? whole, { state, q: 4 });
    const start = slotValues(made, plainSlots(bound, made));
    expect(checkAnswer(made.milp, start)).toBeUndefined();
    const silent = {
      name: "silent",
      solve: () => Promise.resolve({ status: "no-answer" as const, reason: "no time" }),
    };
    const planned = await milpPlan(bound, silent, { q: 4 });
    expect(planned.decisions.gpu[2]).toBe(planned.decisions.gpu[0]);
    expect(() => execute(bound, planOf(bound, planned.decisions))).not.toThrow();
  });
});

describe("planning by MILP", () => {
  it("hands the state on from submodel to submodel and gives a plan that runs", async () => {
    const planned = await milpPlan(problem, highsSolver, { q: 2, timeLimitMs: 5000 });
    expect(planned.submodels.length).toBe(2);
    const { latencyMs } = execute(problem, planOf(problem, planned.decisions));
    expect(latencyMs).toBeLessThanOrEqual(planned.expectedMs * 1.001);
    const exact = estimator(adjustedCosts(problem), { model: "milp" });
    expect(exact.latencyMs(planned.decisions)).toBeLessThanOrEqual(planned.expectedMs * 1.001);
  }, 120_000);

  it("says so when the solver gave nothing better than the warm start", async () => {
    const silent = {
      name: "silent",
      solve: () => Promise.resolve({ status: "no-answer" as const, reason: "no time" }),
    };
    const planned = await milpPlan(problem, silent, { q: 2 });
    // The first submodel is one kernel of 1 ms, while the copies of the second are under way.
    expect(planned.submodels.every(({ status }) => status === "start")).toBe(true);
    expect(planned.expectedMs).toBeCloseTo(10, 9);
  });
});
