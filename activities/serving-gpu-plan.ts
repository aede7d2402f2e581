/**
 * @file Plans a served model over the GPUs of its lease from cold: SortingHat's plan, with their buses, NVLink, direct host access and memory.
 *
 * Kernels are timed by the cost model of `planning/inference/problem.ts`, from the operators' FLOPs and bytes and the kind of GPU.
 * The lanes that answer requests on the host's processor follow their own plan (`serving-planner.ts`).
 */

import type { InferenceFacts } from "../domain/model/inference-facts.ts";
import type { InferenceHost } from "../domain/model/inference-host.ts";
import { checkOperatorGraph, type OperatorGraph } from "../domain/model/operator-graph.ts";
import { problemText } from "../domain/values/problem.ts";
import { planFacts, type FoundPlan } from "../planning/inference/plan-facts.ts";
import { planningProblem, type PlanningProblem } from "../planning/inference/problem.ts";
import { searchPlan } from "../planning/inference/search.ts";

export type GpuPlan =
  | { readonly kind: "planned"; readonly facts: InferenceFacts }
  | { readonly kind: "refused"; readonly message: string };

/** Never throws: the plan is shown beside that of the lanes, which is not lost with it. */
export function gpuPlan(graph: OperatorGraph, host: InferenceHost): GpuPlan {
  try {
    const planned = plannedOnGpus(graph, host);
    if (planned.kind === "refused") return planned;
    return { kind: "planned", facts: planFacts(planned.problem, planned.found) };
  } catch (error) {
    return { kind: "refused", message: error instanceof Error ? error.message : String(error) };
  }
}

export type PlannedOnGpus =
  | { readonly kind: "planned"; readonly problem: PlanningProblem; readonly found: FoundPlan }
  | { readonly kind: "refused"; readonly message: string };

export function plannedOnGpus(graph: OperatorGraph, host: InferenceHost): PlannedOnGpus {
  const checked = checkOperatorGraph(graph, graph.name);
  if (checked.kind === "refused") {
    const texts = checked.problems.map((problem) => problemText(checked.source, problem));
    return { kind: "refused", message: texts.join("; ") };
  }
  const problem = planningProblem(graph, host, { order: checked.order });
  const found = searchPlan(problem);
  if (found.kind === "too large") return { kind: "refused", message: found.message };
  return { kind: "planned", problem, found };
}
