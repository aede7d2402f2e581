/**
 * @file Improves and certifies the plan of a served model over the GPUs of its lease, within a time limit.
 *
 * The plan is made again first: the same model and host give the same plan. Then the MILP and a second search try to better it
 * (`planning/inference/polish.ts`). Belongs in a thread of its own: the solver blocks it.
 */

import type { InferenceFacts } from "../domain/model/inference-facts.ts";
import type { InferenceHost } from "../domain/model/inference-host.ts";
import type { MilpSolver } from "../lib/milp.ts";
import { readOnnxModel } from "../models/onnx/onnx-model.ts";
import { onnxOperatorGraph } from "../models/onnx/onnx-operator-graph.ts";
import { planFacts } from "../planning/inference/plan-facts.ts";
import { polishPlan } from "../planning/inference/polish.ts";
import type { PlanningProblem } from "../planning/inference/problem.ts";
import type { FoundPlan } from "../planning/inference/plan-facts.ts";
import { plannedOnGpus } from "./serving-gpu-plan.ts";
import type { ModelFile } from "./serving-planner.ts";

export interface PolishLimits {
  readonly solver: MilpSolver;
  readonly limitMs: number;
}

/** Undefined when the model cannot be planned over the host. */
export async function polishServing(
  { name, bytes }: ModelFile,
  host: InferenceHost,
  limits: PolishLimits,
): Promise<InferenceFacts | undefined> {
  const read = readOnnxModel(bytes, name);
  if (read.kind === "refused") return undefined;
  const made = await onnxOperatorGraph(read.model);
  if (made.kind === "refused") return undefined;
  const planned = plannedOnGpus(made.graph, host);
  return planned.kind === "refused"
    ? undefined
    : polishedFacts(planned.problem, planned.found, limits);
}

/** Of the time, for the MILPs: the rest is for the search after them, and for a solver that looks at its clock late. */
const MILP_SHARE = 0.75;

export async function polishedFacts(
  problem: PlanningProblem,
  found: FoundPlan,
  { solver, limitMs }: PolishLimits,
): Promise<InferenceFacts> {
  const endMs = performance.now() + limitMs * MILP_SHARE;
  const polished = await polishPlan(problem, found, {
    solver,
    remainingMs: () => endMs - performance.now(),
  });
  const { formerMs, submodels, proven } = polished;
  return { ...planFacts(problem, polished), polish: { limitMs, formerMs, submodels, proven } };
}
