/**
 * @file The memory in use on each GPU while a plan is executed: parameters from the start of their copy, results until their last reader.
 *
 * A parameter stays for the next request, unless it only passed through on its way to another GPU. A result is freed on its own GPU when
 * all readers there have read it and all its copies have been sent, and on another GPU when all readers there have read it.
 * Cost: O(edges) to open, O(inputs) an operation.
 */

import type { InferencePlan } from "../../domain/model/inference-plan.ts";
import { listAt, type PlanningProblem } from "./problem.ts";

export interface MemoryBook {
  readonly hold: (gpu: number, bytes: number) => void;
  /** A parameter has gone on from where it landed. */
  readonly forwarded: (parameter: number, from: number) => void;
  /** A copy of a result begins towards a GPU. */
  readonly resultComes: (operation: number, gpu: number) => void;
  readonly resultSent: (operation: number) => void;
  readonly runs: (operation: number, gpu: number) => void;
  readonly ran: (operation: number, gpu: number) => void;
  readonly peakBytes: () => readonly number[];
}

export interface MemoryBookInput {
  /** By operation. */
  readonly gpuOf: Int32Array;
  /** Number in the problem of each operation of the plan. */
  readonly numberOf: ReadonlyMap<number, number>;
}

export function memoryBook(
  problem: PlanningProblem,
  plan: InferencePlan,
  { gpuOf, numberOf }: MemoryBookInput,
): MemoryBook {
  const { gpuCount, operationCount, outputBytes, parameterBytes, readers, inputs } = problem;
  const held = new Float64Array(gpuCount);
  const peak = new Float64Array(gpuCount);
  const change = (gpu: number, bytes: number): void => {
    const now = (held[gpu] ?? 0) + bytes;
    held[gpu] = now;
    if (now > (peak[gpu] ?? 0)) peak[gpu] = now;
  };
  for (const { parameter, gpu } of plan.resident) change(gpu, parameterBytes[parameter] ?? 0);

  /** Readers of a result that have not run, by `[operation × gpuCount + gpu]`. */
  const unread = new Int32Array(operationCount * gpuCount);
  /** Copies of a result that have not arrived. */
  const unsent = new Int32Array(operationCount);
  for (let operation = 0; operation < operationCount; operation += 1) {
    for (const reader of listAt(readers, operation)) {
      const cell = operation * gpuCount + (gpuOf[reader] ?? 0);
      if (unread[cell] === 0 && gpuOf[reader] !== gpuOf[operation])
        unsent[operation] = (unsent[operation] ?? 0) + 1;
      unread[cell] = (unread[cell] ?? 0) + 1;
    }
  }
  const readHere = new Set<string>();
  for (const [gpu, queue] of plan.gpuQueues.entries())
    for (const { operations, isDirect } of queue) {
      if (isDirect) continue;
      for (const index of operations)
        for (const parameter of listAt(problem.parametersOf, numberOf.get(index) ?? 0))
          readHere.add(`${parameter} ${gpu}`);
    }
  const forwardsLeft = new Map<number, number>();
  for (const { parameter, forwards } of plan.busQueues.flat())
    forwardsLeft.set(parameter, forwards.length);

  const isFinal = (operation: number): boolean => listAt(readers, operation).length === 0;
  const relinquishOwn = (operation: number): void => {
    const home = gpuOf[operation] ?? 0;
    if (isFinal(operation) || (unsent[operation] ?? 0) > 0) return;
    if ((unread[operation * gpuCount + home] ?? 0) > 0) return;
    change(home, -(outputBytes[operation] ?? 0));
    // One copy more than there is keeps the result from being freed twice.
    unsent[operation] = 1;
  };

  return {
    hold: change,
    forwarded: (parameter, from) => {
      const left = (forwardsLeft.get(parameter) ?? 0) - 1;
      forwardsLeft.set(parameter, left);
      if (left === 0 && !readHere.has(`${parameter} ${from}`))
        change(from, -(parameterBytes[parameter] ?? 0));
    },
    resultComes: (operation, gpu) => change(gpu, outputBytes[operation] ?? 0),
    resultSent: (operation) => {
      unsent[operation] = (unsent[operation] ?? 0) - 1;
      relinquishOwn(operation);
    },
    runs: (operation, gpu) => change(gpu, outputBytes[operation] ?? 0),
    ran: (operation, gpu) => {
      for (const input of listAt(inputs, operation)) {
        const cell = input * gpuCount + gpu;
        const left = (unread[cell] ?? 0) - 1;
        unread[cell] = left;
        if (gpuOf[input] === gpu) relinquishOwn(input);
        else if (left === 0) change(gpu, -(outputBytes[input] ?? 0));
      }
    },
    peakBytes: () => [...peak],
  };
}
