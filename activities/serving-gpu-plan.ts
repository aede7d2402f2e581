/**
 * @file Plans a served model over the GPUs of its lease from cold: SortingHat's plan, with their buses, NVLink, direct host access and memory.
 *
 * Kernels are timed by the cost model of `planning/inference/problem.ts`, from the operators' FLOPs and bytes and the kind of GPU.
 * Lanes on the host's processor follow their own plan (`serving-planner.ts`); those of GPUs run the operations of this one, GPU by GPU and in its
 * order. Their runtime copies parameters when it loads a part, and hands values over through host memory.
 */

import type { InferenceFacts } from "../domain/model/inference-facts.ts";
import type { InferenceHost } from "../domain/model/inference-host.ts";
import { checkOperatorGraph, type OperatorGraph } from "../domain/model/operator-graph.ts";
import { problemText } from "../domain/values/problem.ts";
import { partList, type PartList } from "../models/onnx/part-list.ts";
import { planFacts, type FoundPlan } from "../planning/inference/plan-facts.ts";
import { planningProblem, type PlanningProblem } from "../planning/inference/problem.ts";
import { searchPlan } from "../planning/inference/search.ts";

export type GpuPlan =
  | {
      readonly kind: "planned";
      readonly facts: InferenceFacts;
      /** What each GPU runs at once, as indices of the graph's operations. */
      readonly parts: PartList;
    }
  | { readonly kind: "refused"; readonly message: string };

/** Never throws: the plan is shown beside that of the lanes, which is not lost with it. */
export function gpuPlan(graph: OperatorGraph, host: InferenceHost): GpuPlan {
  try {
    const planned = plannedOnGpus(graph, host);
    if (planned.kind === "refused") return planned;
    const { problem, found } = planned;
    return { kind: "planned", facts: planFacts(problem, found), parts: gpuParts(problem, found) };
  } catch (error) {
    return { kind: "refused", message: error instanceof Error ? error.message : String(error) };
  }
}

/** Starting a request or a part, and handing a value over, beside its bytes; as lanes on a processor take it. */
export const CALL_COSTS = { requestMs: 0.1, partMs: 0.03, handMs: 0.03 };

function gpuParts({ graph, host, ...problem }: PlanningProblem, { plan }: FoundPlan): PartList {
  const operationMs = new Array<number>(graph.operations.length).fill(0);
  const numberOf = new Map([...problem.graphIndex].map((index, number) => [index, number]));
  for (const [gpu, queue] of plan.gpuQueues.entries()) {
    for (const index of queue.flatMap(({ operations }) => operations)) {
      const cell = (numberOf.get(index) ?? 0) * problem.gpuCount + gpu;
      operationMs[index] = problem.kernelMs[cell] ?? 0;
    }
  }
  const slowestBus = Math.min(...host.buses.map(({ busGBs }) => busGBs));
  // Out of one GPU's memory and into the other's.
  const handMsPerByte = 2 / (slowestBus * 1e6);
  return partList(graph, plan, { ...CALL_COSTS, handMsPerByte, besideFactor: 1, operationMs });
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
