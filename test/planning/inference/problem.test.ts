/** @file The frozen cost model is accepted by what the paper says about the models and about other planners. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseInferenceHost } from "../../../domain/model/inference-host.ts";
import { checkOperatorGraph } from "../../../domain/model/operator-graph.ts";
import { planOf } from "../../../planning/inference/decisions.ts";
import { execute } from "../../../planning/inference/executor.ts";
import {
  PAPER_MODELS,
  PAPER_SHAPES,
  paperGraph,
} from "../../../planning/inference/paper-models.ts";
import { planningProblem, type PlanningProblem } from "../../../planning/inference/problem.ts";
import { deepPlanDecisions, seriesMs } from "../../../planning/inference/rivals.ts";

function v100(at: number): PlanningProblem {
  const file = join(import.meta.dirname, "../../../data/hosts/v100.yaml");
  const host = parseInferenceHost(readFileSync(file, "utf8"), { file });
  const [model, shape] = [PAPER_MODELS[at >> 2], PAPER_SHAPES[at & 3]];
  if (host.kind !== "parsed" || model === undefined || shape === undefined) throw new Error("none");
  const graph = paperGraph(model, shape);
  const checked = checkOperatorGraph(graph, graph.name);
  if (checked.kind !== "checked") throw new Error("broken");
  return planningProblem(graph, host.host, { order: checked.order });
}

const cells = Array.from({ length: 16 }, (_, at) => v100(at));

describe("the cost model", () => {
  it("has the sizes of the paper's models", () => {
    const gb = cells.map(({ parameterBytes }) => parameterBytes.reduce((a, b) => a + b, 0) / 1e9);
    // Millions of parameters in FP32; GPT-2 has its token table twice.
    const want = [774 + 64, 1558 + 80, 3426, 6738].map((millions) => (millions * 4) / 1000);
    for (const [at, each] of want.entries()) expect(gb[4 * at]).toBeCloseTo(each, 1);
  });

  it("copies longer than it computes, on a V100, for every model and shape (§2.1)", () => {
    for (const problem of cells) {
      let kernelsMs = 0;
      for (let each = 0; each < problem.operationCount; each += 1)
        kernelsMs += problem.kernelMs[each * problem.gpuCount] ?? 0;
      expect(seriesMs(problem, 0) - kernelsMs).toBeGreaterThan(kernelsMs);
    }
  });

  it("puts DeepPlan within 15 % of its published mean and maximum", () => {
    const speedUps = cells.map((problem) => {
      const decisions = deepPlanDecisions(problem);
      if (decisions === undefined) throw new Error("no second bus");
      return seriesMs(problem) / execute(problem, planOf(problem, decisions)).latencyMs;
    });
    const mean = speedUps.reduce((sum, each) => sum + each, 0) / speedUps.length;
    expect(Math.abs(mean / 1.93 - 1)).toBeLessThan(0.15);
    expect(Math.abs(Math.max(...speedUps) / 2.14 - 1)).toBeLessThan(0.15);
  });
});
