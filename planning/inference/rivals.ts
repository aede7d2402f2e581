/**
 * @file The plans that the search is compared with and starts from, each in its best reading: one GPU, DeepPlan, EfficientMIP.
 *
 * - One GPU: all copies at full bus bandwidth, then all kernels (the paper's base); and with copies and kernels overlapped.
 * - DeepPlan: all kernels on one GPU; the first half of the parameters' bytes lands there, the second half on the best neighbour behind
 *   another bus and is forwarded as it lands; direct host access wherever that reads fewer bytes than a copy moves.
 * - EfficientMIP: its schedules come from bench/rivals/inference/efficient-mip.ts; executed, all GPUs are filled side by side, then the
 *   kernels run.
 */

import type { InferencePlan } from "../../domain/model/inference-plan.ts";
import { IN_HOST, allOn, planOf, WITH_READER, type Decisions } from "./decisions.ts";
import { execute, type ExecuteOptions } from "./executor.ts";
import { listAt, type PlanningProblem } from "./problem.ts";

/** The GPU on which all kernels together take least; lowest index first. */
export function fastestGpu({ operationCount, gpuCount, kernelMs }: PlanningProblem): number {
  const total = new Float64Array(gpuCount);
  for (let cell = 0; cell < operationCount * gpuCount; cell += 1)
    total[cell % gpuCount] = (total[cell % gpuCount] ?? 0) + (kernelMs[cell] ?? 0);
  return total.indexOf(Math.min(...total));
}

/** Copies, then kernels. */
export function seriesMs(problem: PlanningProblem, gpu = fastestGpu(problem)): number {
  const { operationCount, gpuCount, kernelMs, parameterBytes, busMsPerByte, busOf, isResident } =
    problem;
  let bytes = 0;
  for (const [parameter, each] of parameterBytes.entries())
    if (isResident[parameter * gpuCount + gpu] === 0) bytes += each;
  let kernels = 0;
  for (let operation = 0; operation < operationCount; operation += 1)
    kernels += kernelMs[operation * gpuCount + gpu] ?? 0;
  return bytes * (busMsPerByte[busOf[gpu] ?? 0] ?? 0) + kernels;
}

export function overlappedPlan(problem: PlanningProblem): InferencePlan {
  return planOf(problem, allOn(problem, fastestGpu(problem)));
}

/** Undefined where no second bus is reachable from a fastest GPU. */
export function deepPlanDecisions(problem: PlanningProblem): Decisions | undefined {
  const { gpuCount, busOf, peerMsPerByte, isPeerOverBus } = problem;
  const least = seriesMs(problem);
  let pair: { first: number; second: number; cost: number } | undefined;
  for (let first = 0; first < gpuCount; first += 1) {
    if (seriesMs(problem, first) > least * 1.000_001) continue;
    for (let second = 0; second < gpuCount; second += 1) {
      const link = first * gpuCount + second;
      if (busOf[first] === busOf[second] || isPeerOverBus[link] === 1) continue;
      const cost = peerMsPerByte[link] ?? 0;
      if (pair === undefined || cost < pair.cost) pair = { first, second, cost };
    }
  }
  if (pair === undefined) return undefined;
  const decisions = withDirect(problem, allOn(problem, pair.first));
  const { landing } = decisions;
  const copied = parametersInOrder(problem).filter((each) => landing[each] !== IN_HOST);
  const half = copied.reduce((sum, each) => sum + (problem.parameterBytes[each] ?? 0), 0) / 2;
  let before = 0;
  for (const parameter of copied) {
    if (before >= half) landing[parameter] = pair.second;
    before += problem.parameterBytes[parameter] ?? 0;
  }
  return decisions;
}

/** Direct host access for operations that touch at most half of the bytes that a copy would move. */
export function withDirect(problem: PlanningProblem, decisions: Decisions): Decisions {
  for (let operation = 0; operation < problem.operationCount; operation += 1) {
    const own = listAt(problem.parametersOf, operation);
    const bytes = own.reduce((sum, each) => sum + (problem.parameterBytes[each] ?? 0), 0);
    const isAlone = own.every((each) => listAt(problem.readersOfParameter, each).length === 1);
    if (!isAlone || bytes === 0 || 2 * (problem.directBytes[operation] ?? 0) > bytes) continue;
    for (const parameter of own) decisions.landing[parameter] = IN_HOST;
  }
  return decisions;
}

function parametersInOrder(problem: PlanningProblem): number[] {
  const seen = new Set<number>();
  for (let operation = 0; operation < problem.operationCount; operation += 1)
    for (const parameter of listAt(problem.parametersOf, operation)) seen.add(parameter);
  return [...seen];
}

/** Copies to all GPUs side by side, then the kernels with everything resident. */
export function copiesThenKernelsMs(
  problem: PlanningProblem,
  decisions: Decisions,
  options: ExecuteOptions,
): number {
  const bytes = new Map<string, number>();
  const busMs = new Float64Array(problem.busMsPerByte.length);
  const isResident = problem.isResident.slice();
  for (let operation = 0; operation < problem.operationCount; operation += 1) {
    const gpu = decisions.gpu[operation] ?? 0;
    const bus = problem.busOf[gpu] ?? 0;
    for (const parameter of listAt(problem.parametersOf, operation)) {
      if (bytes.has(`${parameter} ${gpu}`)) continue;
      const cell = parameter * problem.gpuCount + gpu;
      const size = isResident[cell] === 1 ? 0 : (problem.parameterBytes[parameter] ?? 0);
      bytes.set(`${parameter} ${gpu}`, size);
      busMs[bus] = (busMs[bus] ?? 0) + size * (problem.busMsPerByte[bus] ?? 0);
      isResident[cell] = 1;
    }
  }
  const landing = new Int32Array(problem.parameterCount).fill(WITH_READER);
  const loaded = { ...problem, isResident };
  const plan = planOf(loaded, { ...decisions, landing });
  return Math.max(...busMs) + execute(loaded, plan, options).latencyMs;
}
