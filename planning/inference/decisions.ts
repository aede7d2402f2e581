/**
 * @file The decisions of a plan as flat arrays that a search changes in place, and the plan that follows from them.
 *
 * One global order of operations, the GPU of each, and the landing of each parameter. Every queue follows from the order: a GPU takes its
 * operations in it, a bus copies parameters in the order in which they are first read. With all copies wanted from time 0 on, serving the
 * earliest need first is optimal on one bus, so searching bus orders themselves would gain nothing. Cost: O(operations + parameters).
 */

import type {
  InferencePlan,
  PlannedCopy,
  PlannedSubgraph,
} from "../../domain/model/inference-plan.ts";
import { listAt, type PlanningProblem } from "./problem.ts";

export interface Decisions {
  /** Operations by position; inputs come first. */
  readonly order: Int32Array;
  /** By operation. */
  readonly gpu: Int32Array;
  /** By parameter: a GPU, or one of the two below. */
  readonly landing: Int32Array;
}

/** Read from host memory by every operation that needs it. */
export const IN_HOST = -1;
/** On the GPU of its first reader. */
export const WITH_READER = -2;

/** Everything on one GPU, copied in the order of need. */
export function allOn(problem: PlanningProblem, gpu: number): Decisions {
  return {
    order: Int32Array.from({ length: problem.operationCount }, (_, at) => at),
    gpu: new Int32Array(problem.operationCount).fill(gpu),
    landing: new Int32Array(problem.parameterCount).fill(WITH_READER),
  };
}

export function copyDecisions({ order, gpu, landing }: Decisions): Decisions {
  return { order: order.slice(), gpu: gpu.slice(), landing: landing.slice() };
}

/** The same with every group on the GPU of its first operation. */
export function keptTogether(problem: PlanningProblem, decisions: Decisions): Decisions {
  const kept = copyDecisions(decisions);
  for (let operation = 0; operation < problem.operationCount; operation += 1) {
    const first = listAt(problem.together, operation)[0];
    if (first !== undefined) kept.gpu[operation] = decisions.gpu[first] ?? 0;
  }
  return kept;
}

/** An operation reads its parameters directly when all of them stay in host memory. */
export function isDirect(
  problem: PlanningProblem,
  { landing }: Decisions,
  operation: number,
): boolean {
  const own = listAt(problem.parametersOf, operation);
  return own.length > 0 && own.every((parameter) => landing[parameter] === IN_HOST);
}

/** One subgraph for each operation: the finest that the executor knows, and what the estimate assumes. */
export function planOf(problem: PlanningProblem, decisions: Decisions): InferencePlan {
  const { gpuCount, parametersOf, parameterBytes, busOf, isResident } = problem;
  const gpuQueues: PlannedSubgraph[][] = Array.from({ length: gpuCount }, () => []);
  const copies: { parameter: number; gpu: number; forwards: number[] }[][] = problem.host.buses.map(
    () => [],
  );
  const copyOf = new Map<number, { parameter: number; gpu: number; forwards: number[] }>();
  for (const operation of decisions.order) {
    const gpu = decisions.gpu[operation] ?? 0;
    const direct = isDirect(problem, decisions, operation);
    gpuQueues[gpu]?.push({ operations: [problem.graphIndex[operation] ?? 0], isDirect: direct });
    if (direct) continue;
    for (const parameter of listAt(parametersOf, operation)) {
      if (isResident[parameter * gpuCount + gpu] === 1 || parameterBytes[parameter] === 0) continue;
      const made = copyOf.get(parameter);
      if (made !== undefined) {
        if (made.gpu !== gpu && !made.forwards.includes(gpu)) made.forwards.push(gpu);
        continue;
      }
      const wanted = decisions.landing[parameter] ?? WITH_READER;
      const lands = wanted >= 0 ? wanted : gpu;
      const copy = { parameter, gpu: lands, forwards: lands === gpu ? [] : [gpu] };
      copyOf.set(parameter, copy);
      copies[busOf[lands] ?? 0]?.push(copy);
    }
  }
  const resident = [...isResident].flatMap((is, cell) =>
    is === 1 ? [{ parameter: Math.floor(cell / gpuCount), gpu: cell % gpuCount }] : [],
  );
  const busQueues: readonly (readonly PlannedCopy[])[] = copies;
  return { gpuQueues, busQueues, resident };
}
