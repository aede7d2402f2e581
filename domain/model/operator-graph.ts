/**
 * @file A model for the inference planner: operations, and the parameters that they need from host memory.
 *
 * An operation has costs for any device (FLOPs, bytes) and, where measured, times on named kinds of device;
 * `planning/inference/` turns both into times per GPU. Edges are index lists, so a graph is plain data that travels in files and payloads.
 * Each operation has one output tensor, as in the paper (SortingHat, table 1).
 */

import type { Problem, Refused } from "../values/problem.ts";
import { labelledGraph, topologicalOrder as orderOf } from "./labelled-graph.ts";

/** Weights: they start in pinned host memory and are the same for every request. */
export interface ParameterNode {
  readonly id: string;
  readonly bytes: number;
}

export interface OperationNode {
  readonly id: string;
  /** The operator: `MatMul`, `Softmax`, … Operations of equal kind and costs count as repetitions of one another. */
  readonly kind: string;
  /** Indices of the operations whose results it reads; the inputs of the model are left out. */
  readonly inputs: readonly number[];
  /** Indices of the parameters that it reads. */
  readonly parameters: readonly number[];
  /** The sum of its outputs. */
  readonly outputBytes: number;
  readonly flops: number;
  /** Bytes that the kernel reads and writes in device memory, parameters included. */
  readonly movedBytes: number;
  /** Bytes of its parameters that it touches; absent = all of them. A look-up in an embedding reads a few rows. */
  readonly touchedParameterBytes?: number;
  /** Its products are of 16-bit numbers (FP16, BF16), for which devices have a separate peak. */
  readonly isHalf?: true;
  /** Operations of one group run on one GPU (tied weights, in-place state). */
  readonly group?: string;
  /** Times measured on real devices; other devices are estimated from FLOPs and bytes. */
  readonly measured?: readonly MeasuredTime[];
}

export interface MeasuredTime {
  /** Kind of device, as host files name it. */
  readonly device: string;
  readonly kernelMs: number;
  /** With its parameters read straight from host memory (direct host access). */
  readonly directMs?: number;
}

export interface OperatorGraph {
  readonly name: string;
  readonly parameters: readonly ParameterNode[];
  readonly operations: readonly OperationNode[];
}

export type CheckedOperatorGraph =
  { readonly kind: "checked"; readonly order: readonly number[] } | Refused;

/** The operations in an order in which inputs come first; refused when the graph is broken. */
export function checkOperatorGraph(graph: OperatorGraph, source: string): CheckedOperatorGraph {
  const problems: Problem[] = [];
  const refuseHere = (message: string, remedy: string): void => {
    if (problems.length < 20) problems.push({ line: 1, message, remedy });
  };
  const { operations, parameters } = graph;
  if (operations.length === 0)
    refuseHere(`graph ${graph.name} has no operation`, "give a graph with at least one operation");
  for (const { id, bytes } of parameters) {
    if (isAmount(bytes)) continue;
    refuseHere(`parameter ${id} has ${String(bytes)} bytes`, "sizes are finite and not negative");
  }
  for (const operation of operations) {
    const { id, inputs, parameters: read, outputBytes, flops, movedBytes } = operation;
    if (![outputBytes, flops, movedBytes].every(isAmount))
      refuseHere(
        `operation ${id} costs ${String(flops)} FLOPs, ${String(movedBytes)} bytes, hands on ${String(outputBytes)} bytes`,
        "costs are finite and not negative",
      );
    for (const input of inputs) {
      if (operations[input] === undefined)
        refuseHere(`operation ${id} reads operation ${String(input)}`, indexRemedy(operations));
    }
    for (const parameter of read) {
      if (parameters[parameter] === undefined)
        refuseHere(`operation ${id} reads parameter ${String(parameter)}`, indexRemedy(parameters));
    }
  }
  if (problems.length > 0) return { kind: "refused", source, problems };
  const order = topologicalOrder(graph);
  if (order.length === operations.length) return { kind: "checked", order };
  const isOrdered = new Set(order);
  const stuck = operations.find((_, index) => !isOrdered.has(index));
  const message = `operation ${stuck?.id ?? ""} waits for itself: ${operations.length - order.length} operations lie on or behind a cycle`;
  return {
    kind: "refused",
    source,
    problems: [{ line: 1, message, remedy: "a model's graph has no cycle; unroll loops" }],
  };
}

/** The given order where inputs come first already, else Kahn's order. It lacks the operations on or behind a cycle. */
function topologicalOrder({ operations }: OperatorGraph): readonly number[] {
  if (operations.every(({ inputs }, index) => inputs.every((input) => input < index)))
    return operations.map((_, index) => index);
  const edges = operations.flatMap(({ inputs }, to) => inputs.map((from) => ({ from, to })));
  return orderOf(labelledGraph(operations.length, edges)).order;
}

const isAmount = (value: number): boolean => Number.isFinite(value) && value >= 0;

const indexRemedy = (list: readonly unknown[]): string =>
  `indices run from 0 to ${list.length - 1}; give the graph again`;
