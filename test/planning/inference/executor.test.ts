/** @file The executor of algorithm 1 on cases that can be reckoned by hand, and its laws. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { bounds } from "../../../planning/inference/bounds.ts";
import { allOn, IN_HOST, planOf } from "../../../planning/inference/decisions.ts";
import { estimator } from "../../../planning/inference/estimate.ts";
import { execute } from "../../../planning/inference/executor.ts";
import { searchPlan } from "../../../planning/inference/search.ts";
import { seriesMs } from "../../../planning/inference/rivals.ts";
import { drawnProblem, oneEach, tinyGraph, tinyHost, tinyProblem } from "./problems.ts";
import { caseCount } from "../../support/case-count.ts";

const runs = { numRuns: caseCount(40), seed: Number(process.env["ORBWEAVER_SEED"] ?? 1) };

describe("the executor", () => {
  it("overlaps the copy of the next parameter with a kernel", () => {
    // Copies take 2 and 3 ms over 10 GB/s; the second kernel starts when its parameter is there.
    const graph = tinyGraph(
      [
        { kernelMs: 1, parameters: [0] },
        { kernelMs: 4, parameters: [1], inputs: [0] },
      ],
      [20, 30],
    );
    const problem = tinyProblem(graph, tinyHost({ buses: [0] }));
    expect(execute(problem, planOf(problem, allOn(problem, 0))).latencyMs).toBeCloseTo(9, 9);
    expect(seriesMs(problem)).toBeCloseTo(10, 9);
  });

  it("lets two GPUs on one bus share it, and two buses not", () => {
    const latency = (buses: readonly number[]): number => {
      const { problem, plan } = oneEach(buses);
      return execute(problem, plan).latencyMs;
    };
    expect(latency([0, 0])).toBeCloseTo(5, 9);
    expect(latency([0, 1])).toBeCloseTo(3, 9);
  });

  it("forwards a parameter over the link as soon as it has landed", () => {
    const graph = tinyGraph([{ kernelMs: 1, parameters: [0] }], [50]);
    const problem = tinyProblem(graph, tinyHost({ buses: [0, 1] }));
    const decisions = allOn(problem, 0);
    decisions.landing[0] = 1;
    // 5 ms over the bus, 1 ms over the link, 1 ms of kernel.
    expect(execute(problem, planOf(problem, decisions)).latencyMs).toBeCloseTo(7, 9);
  });

  it("halves the pace of a copy while a kernel reads over the same bus", () => {
    const graph = tinyGraph(
      [
        { kernelMs: 0.1, parameters: [0] },
        { kernelMs: 1, parameters: [1] },
      ],
      [10, 20],
    );
    const problem = tinyProblem(graph, tinyHost({ buses: [0] }));
    const decisions = allOn(problem, 0);
    decisions.landing[0] = IN_HOST;
    // The read of 10 MB takes 2 ms at half pace, the copy of 20 MB 1 ms of its own more beside it: 3 ms.
    expect(execute(problem, planOf(problem, decisions)).latencyMs).toBeCloseTo(4, 9);
  });

  it("is never below the lower bound, whatever the plan", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), (seed) => {
        const problem = drawnProblem(seed);
        const random = randomFrom(seed, "plan");
        const decisions = allOn(problem, 0);
        decisions.gpu.forEach((_, at) => (decisions.gpu[at] = random.below(2)));
        decisions.landing.forEach((_, at) => (decisions.landing[at] = random.below(3) - 1));
        const { latencyMs } = execute(problem, planOf(problem, decisions));
        expect(latencyMs).toBeGreaterThanOrEqual(bounds(problem).lowerMs * (1 - 1e-9));
      }),
      runs,
    );
  });

  it("finds the estimate close on what the search answers", () => {
    const errors = Array.from({ length: 30 }, (_, at) => {
      const problem = drawnProblem(at + 1);
      const found = searchPlan(problem, { estimates: 400 });
      if (found.kind !== "planned") return 1;
      const { latencyMs } = execute(problem, found.plan);
      return Math.abs(estimator(problem).latencyMs(found.decisions) / latencyMs - 1);
    });
    expect(errors.reduce((sum, each) => sum + each, 0) / errors.length).toBeLessThan(0.03);
  });

  it("gives the same run for the same noise, and another for another", () => {
    const problem = drawnProblem(7);
    const plan = planOf(problem, allOn(problem, 0));
    const latency = (seed: number): number =>
      execute(problem, plan, { random: randomFrom(seed) }).latencyMs;
    expect(latency(1)).toBe(latency(1));
    expect(latency(1)).not.toBe(latency(2));
  });
});
