/** @file The MILP of SortingHat §3.3: the equations, and agreement with a solver's answers. */

import { describe, expect, it } from "vitest";
import { checkAnswer } from "../../../lib/milp.ts";
import { highsSolver } from "../../../solvers/index.ts";
import { adjustedCosts } from "../../../planning/inference/adjusted-costs.ts";
import { estimator } from "../../../planning/inference/estimate.ts";
import { allOn } from "../../../planning/inference/decisions.ts";
import { chosenSlots, plainSlots } from "../../../planning/inference/milp-plan.ts";
import { submodelMilp } from "../../../planning/inference/milp.ts";
import { searchPlan } from "../../../planning/inference/search.ts";
import { slotValues } from "../../../planning/inference/slot-values.ts";
import { diamond, emptyState, grouped, whole } from "./milp-problems.ts";
import { tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

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
const settings = { state: emptyState, q: 2, horizonMs: 12 };

describe("the MILP of a submodel", () => {
  it("has a row for each of its equations", () => {
    const { milp } = submodelMilp(diamond, whole, { state: emptyState, q: 2 });
    const numbers = new Set(milp.rows.map(({ name }) => /^\((\d+)\)/.exec(name)?.[1]));
    // (1) is the objective; (3) needs fixed nodes and (13) two GPUs on a bus or a second slot.
    for (let equation = 2; equation <= 23; equation += 1)
      if (equation !== 3) expect(numbers).toContain(String(equation));
  });

  it("is satisfied by everything on one GPU, whose latency is reckoned by hand", () => {
    const made = submodelMilp(diamond, whole, { state: emptyState, q: 2 });
    const values = slotValues(made, plainSlots(diamond, made));
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
  });
});

describe("groups in the MILP", () => {
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
    const bound = grouped(pair, [0, 1]);
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
  });
});
