/**
 * @file A lower bound on the latency of every plan, and the paper's critical path, which plans may undercut.
 *
 * Lower bound: before an operation runs, all parameters of its ancestors must have crossed the buses together; before it ends, also its own
 * parameters, which come over one bus and then wait for the kernel unless the kernel reads them from host memory; after it runs its longest
 * chain of kernels on the fastest GPU. All kernels together need the time of the GPUs side by side. The bound is the largest of these.
 * The paper's critical path bounds model parallelism alone: copies over one bus first, then the longest chain. Cost: O(operations × edges).
 */

import { listAt, type PlanningProblem } from "./problem.ts";

export interface Bounds {
  readonly lowerMs: number;
  readonly criticalPathMs: number;
}

export function bounds(problem: PlanningProblem): Bounds {
  const { operationCount, gpuCount, kernelMs, directMs, busMsPerByte, busOf } = problem;
  const best = new Float64Array(operationCount);
  const relative = new Float64Array(gpuCount);
  let work = 0;
  for (let operation = 0; operation < operationCount; operation += 1) {
    const cells = kernelMs.subarray(operation * gpuCount, (operation + 1) * gpuCount);
    const direct = directMs.subarray(operation * gpuCount, (operation + 1) * gpuCount);
    const least = Math.min(...cells, ...direct);
    best[operation] = least;
    work += least;
    for (const [gpu, ms] of cells.entries()) {
      const pace = Math.min(ms, direct[gpu] ?? ms);
      relative[gpu] = Math.max(relative[gpu] ?? 0, pace === 0 ? 1 : least / pace);
    }
  }
  const used = new Set(busOf);
  const bytesPerMs = [...used].reduce((sum, bus) => sum + 1 / (busMsPerByte[bus] ?? 1), 0);
  const tail = tails(problem, best);
  const sideBySide = work / relative.reduce((sum, each) => sum + each, 0);
  const needed = neededBytes(problem);
  const fastestBus = Math.min(...[...used].map((bus) => busMsPerByte[bus] ?? 0));
  let lowerMs = sideBySide;
  const seen = new Int32Array(operationCount).fill(-1);
  for (let operation = 0; operation < operationCount; operation += 1) {
    const took = best[operation] ?? 0;
    const behind = (tail[operation] ?? 0) - took;
    const bytes = crossingBytes(problem, operation, { needed, seen });
    const endMs = Math.max(
      bytes.before / bytesPerMs + took,
      (bytes.before + bytes.own) / bytesPerMs,
      aloneMs(problem, operation, { fastestBus, bytesPerMs }),
    );
    lowerMs = Math.max(lowerMs, endMs + behind);
  }
  const allBytes = problem.parameterBytes.reduce((sum, each) => sum + each, 0);
  return { lowerMs, criticalPathMs: allBytes * fastestBus + Math.max(0, ...tail) };
}

/** Longest chain of kernels from each operation on, itself included. */
function tails({ operationCount, readers }: PlanningProblem, best: Float64Array): Float64Array {
  const tail = new Float64Array(operationCount);
  for (let operation = operationCount - 1; operation >= 0; operation -= 1) {
    let longest = 0;
    for (const reader of listAt(readers, operation)) longest = Math.max(longest, tail[reader] ?? 0);
    tail[operation] = (best[operation] ?? 0) + longest;
  }
  return tail;
}

/** Bytes of each parameter that must cross a bus: only the bytes that direct reads touch when all its readers could read it directly, else all. */
function neededBytes(problem: PlanningProblem): Float64Array {
  const { parameterCount, parameterBytes, isResident, gpuCount } = problem;
  const needed = new Float64Array(parameterCount);
  for (let parameter = 0; parameter < parameterCount; parameter += 1) {
    const cells = isResident.subarray(parameter * gpuCount, (parameter + 1) * gpuCount);
    if (cells.includes(1)) continue;
    let touched = Infinity;
    for (const reader of listAt(problem.readersOfParameter, parameter)) {
      const own = listAt(problem.parametersOf, reader);
      const ownBytes = own.reduce((sum, each) => sum + (parameterBytes[each] ?? 0), 0);
      const share = ownBytes === 0 ? 0 : (problem.directBytes[reader] ?? 0) / ownBytes;
      touched = Math.min(touched, share * (parameterBytes[parameter] ?? 0));
    }
    needed[parameter] = Number.isFinite(touched) ? touched : 0;
  }
  return needed;
}

/** An operation with nothing before it: its parameters are copied and then it runs, or it reads them while it runs. */
function aloneMs(
  { gpuCount, kernelMs, directMs, parameterBytes, parametersOf, isResident }: PlanningProblem,
  operation: number,
  { fastestBus, bytesPerMs }: { readonly fastestBus: number; readonly bytesPerMs: number },
): number {
  let largest = 0;
  let all = 0;
  const cells = [operation * gpuCount, (operation + 1) * gpuCount] as const;
  for (const parameter of listAt(parametersOf, operation)) {
    if (isResident.subarray(parameter * gpuCount, (parameter + 1) * gpuCount).includes(1)) continue;
    largest = Math.max(largest, parameterBytes[parameter] ?? 0);
    all += parameterBytes[parameter] ?? 0;
  }
  const copied = Math.max(largest * fastestBus, all / bytesPerMs);
  return Math.min(
    copied + Math.min(...kernelMs.subarray(...cells)),
    Math.min(...directMs.subarray(...cells)),
  );
}

/** Needed bytes of the parameters of all ancestors of an operation, and of its own remaining parameters. */
function crossingBytes(
  problem: PlanningProblem,
  operation: number,
  { needed, seen }: { readonly needed: Float64Array; readonly seen: Int32Array },
): { readonly before: number; readonly own: number } {
  const { readersOfParameter, parametersOf, inputs } = problem;
  const counted = new Set<number>();
  const open = [...listAt(inputs, operation)];
  for (const input of open) seen[input] = operation;
  let before = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const parameter of listAt(parametersOf, next)) {
      if (listAt(readersOfParameter, parameter).length > 1) {
        if (counted.has(parameter)) continue;
        counted.add(parameter);
      }
      before += needed[parameter] ?? 0;
    }
    for (const input of listAt(inputs, next)) {
      if (seen[input] === operation) continue;
      seen[input] = operation;
      open.push(input);
    }
  }
  let own = 0;
  for (const parameter of listAt(parametersOf, operation))
    if (!counted.has(parameter)) own += needed[parameter] ?? 0;
  return { before, own };
}
