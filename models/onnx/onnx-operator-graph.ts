/**
 * @file Makes the graph that planners read from an ONNX model and its trace: operations with costs, parameters, and edges.
 *
 * A value that depends on no input is a parameter, even when operators make it from constants. Operators that cost
 * nothing of their own (they were fused with a former one, or only rename) go with a neighbour, so that no plan pulls them apart:
 * into the operation that makes all they read, else into the only one that reads all they make. Neither can close a cycle: no
 * way leads out of the joined operation and back. Order and names are the file's. Cost: two passes over the operators.
 */

import type { OperationNode, OperatorGraph } from "../../domain/model/operator-graph.ts";
import { operatorCost, touchedBytes, type ShapeOf } from "./onnx-costs.ts";
import type { OnnxModel, OnnxOperator } from "./onnx-model.ts";
import { traceOnnx, type OnnxTrace, type TraceOptions } from "./onnx-trace.ts";

interface OnnxGraphOptions extends TraceOptions {
  /** What host files call the device whose times are measured. */
  readonly device?: string;
}

export interface OnnxOperatorGraph {
  readonly graph: OperatorGraph;
  /** Indices of the model's operators by operation, ascending; those that depend on no input are in none. */
  readonly operators: readonly (readonly number[])[];
  readonly trace: OnnxTrace;
}

type MadeOperatorGraph =
  | ({ readonly kind: "made" } & OnnxOperatorGraph)
  | { readonly kind: "refused"; readonly message: string };

/** Runs the model once, and `timedRuns` times more for its operators' times. */
export async function onnxOperatorGraph(
  model: OnnxModel,
  options: OnnxGraphOptions = {},
): Promise<MadeOperatorGraph> {
  const traced = await traceOnnx(model, options);
  if (traced.kind === "refused") return traced;
  return { kind: "made", ...graphOf(model, traced.trace, options.device ?? MEASURED_DEVICE) };
}

/** One thread of the processor of the host that measures. */
export const MEASURED_DEVICE = "cpu-thread";
/** An operator that takes less of its run than this share is left to a neighbour. */
const NEGLIGIBLE_SHARE = 1e-3;

export function graphOf(model: OnnxModel, trace: OnnxTrace, device: string): OnnxOperatorGraph {
  const shapeOf: ShapeOf = (name) => trace.values.get(name);
  const constant = constantOperators(model);
  const groups = groupedOperators(model, constant, cheapTest(model, trace));
  const operationOf = new Map(groups.flatMap((group, at) => group.map((index) => [index, at])));
  const makerOf = new Map<string, number>();
  model.operators.forEach(({ outputs }, index) => {
    const at = operationOf.get(index);
    if (at !== undefined) for (const name of outputs) if (name !== "") makerOf.set(name, at);
  });
  const inputNames = new Set(model.inputs.map(({ name }) => name));
  const parameterOf = new Map<string, number>();
  const noteParameter = (name: string): number => {
    const known = parameterOf.get(name) ?? parameterOf.size;
    parameterOf.set(name, known);
    return known;
  };
  const readersOf = new Map<string, Set<number>>();
  const reads = groups.map((group, at) => {
    const names = new Set(group.flatMap((index) => readNames(model.operators[index])));
    for (const name of names) readersOf.set(name, (readersOf.get(name) ?? new Set()).add(at));
    return names;
  });
  const isOutput = new Set(model.outputs.map(({ name }) => name));
  const operations = groups.map((group, at): OperationNode => {
    const operators = group.flatMap((index) => model.operators[index] ?? []);
    const names = [...(reads[at] ?? [])];
    const parameters = names.filter((name) => !makerOf.has(name) && !inputNames.has(name));
    const inputs = new Set(names.flatMap((name) => makerOf.get(name) ?? []));
    inputs.delete(at);
    const handed = operators
      .flatMap(({ outputs }) => outputs)
      .filter(
        (name) => isOutput.has(name) || [...(readersOf.get(name) ?? [])].some((to) => to !== at),
      );
    const costs = operators.map((operator) => operatorCost(operator, shapeOf));
    const sizeBytes = sum(parameters.map((name) => shapeOf(name)?.sizeBytes ?? 0));
    const touched = Math.min(sizeBytes, touchedParameters(operators, new Set(parameters), shapeOf));
    const kernelMs = sum(group.map((index) => trace.operatorMs?.[index] ?? 0));
    const largest = costs.reduce((most, { flops }) => Math.max(most, flops), 0);
    const main = operators[costs.findIndex(({ flops }) => flops === largest)];
    const made = shapeOf(main?.outputs[0] ?? "")?.type;
    return {
      id: operators[0]?.id ?? "",
      kind: [...new Set(operators.map(({ op }) => op))].join("+"),
      inputs: [...inputs].sort((a, b) => a - b),
      parameters: parameters.map(noteParameter),
      outputBytes: sum(handed.map((name) => shapeOf(name)?.sizeBytes ?? 0)),
      flops: sum(costs.map(({ flops }) => flops)),
      movedBytes: sum(costs.map(({ movedBytes }) => movedBytes)),
      ...((made === "float16" || made === "bfloat16") && { isHalf: true }),
      ...(touched < sizeBytes && { touchedParameterBytes: touched }),
      ...(trace.operatorMs !== undefined && { measured: [{ device, kernelMs }] }),
    };
  });
  const parameters = [...parameterOf.keys()].map((name) => ({
    id: name,
    bytes: shapeOf(name)?.sizeBytes ?? 0,
  }));
  const name = model.name === "" ? "model" : model.name;
  return { graph: { name, parameters, operations }, operators: groups, trace };
}

/** Everything that an operator needs before it can run; nothing for what is left out. */
export const readNames = (operator: OnnxOperator | undefined): readonly string[] =>
  operator === undefined
    ? []
    : [...operator.inputs, ...operator.captures].filter((name) => name !== "");

/** Indices of operators whose values are the same for every request. One that draws random numbers is none. */
export function constantOperators(model: OnnxModel): ReadonlySet<number> {
  const fixed = new Set(model.parameters.map(({ name }) => name));
  const constant = new Set<number>();
  model.operators.forEach((operator, index) => {
    if (DRAWS.has(operator.op) || !readNames(operator).every((name) => fixed.has(name))) return;
    constant.add(index);
    for (const name of operator.outputs) fixed.add(name);
  });
  return constant;
}

const DRAWS: ReadonlySet<string> = new Set([
  ...["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"],
  ...["Multinomial", "Bernoulli"],
]);

/** Measured: takes next to nothing. Not measured: does no arithmetic. */
function cheapTest(model: OnnxModel, { operatorMs, runMs = 0, values }: OnnxTrace) {
  if (operatorMs === undefined) {
    return (index: number): boolean => {
      const operator = model.operators[index];
      if (operator === undefined || operator.op === "Gather") return false;
      return operatorCost(operator, (name) => values.get(name)).flops === 0;
    };
  }
  return (index: number): boolean => (operatorMs[index] ?? 0) <= runMs * NEGLIGIBLE_SHARE;
}

function groupedOperators(
  model: OnnxModel,
  constant: ReadonlySet<number>,
  isCheap: (index: number) => boolean,
): readonly (readonly number[])[] {
  const { operators } = model;
  const rootOf = operators.map((_, index) => index);
  const makerOf = new Map<string, number>();
  const rootOfName = (name: string): number | undefined => {
    const maker = makerOf.get(name);
    return maker === undefined ? undefined : rootOf[maker];
  };
  operators.forEach((operator, index) => {
    if (constant.has(index)) return;
    if (isCheap(index)) {
      const names = readNames(operator);
      const roots = new Set(names.flatMap((name) => rootOfName(name) ?? []));
      const [root] = roots;
      // What also reads an input of the model does not wait for the former operation alone, but no cycle goes through an input.
      if (roots.size === 1 && root !== undefined) rootOf[index] = root;
    }
    for (const name of operator.outputs) if (name !== "") makerOf.set(name, index);
  });
  joinReaders(model, { constant, isCheap, rootOf });
  const groups = new Map<number, number[]>();
  rootOf.forEach((root, index) => {
    if (constant.has(index)) return;
    groups.set(root, [...(groups.get(root) ?? []), index]);
  });
  return [...groups].sort(([a], [b]) => a - b).map(([, group]) => group);
}

interface Joining {
  readonly constant: ReadonlySet<number>;
  readonly isCheap: (index: number) => boolean;
  /** Changed in place: by operator, the operator that its group is called after. */
  readonly rootOf: number[];
}

/** A cheap operation that still stands alone goes to its only reader; from the end, so that chains of them follow. */
function joinReaders(model: OnnxModel, { constant, isCheap, rootOf }: Joining): void {
  const readersOf = new Map<string, Set<number>>();
  model.operators.forEach((operator, index) => {
    for (const name of readNames(operator)) {
      readersOf.set(name, (readersOf.get(name) ?? new Set()).add(index));
    }
  });
  const outputs = new Set(model.outputs.map(({ name }) => name));
  const membersOf = new Map<number, number>();
  for (const root of rootOf) membersOf.set(root, (membersOf.get(root) ?? 0) + 1);
  for (let index = model.operators.length - 1; index >= 0; index -= 1) {
    const makes = model.operators[index]?.outputs.filter((name) => name !== "") ?? [];
    if (constant.has(index) || !isCheap(index) || rootOf[index] !== index) continue;
    if (membersOf.get(index) !== 1 || makes.some((name) => outputs.has(name))) continue;
    const readers = makes.flatMap((name) => [...(readersOf.get(name) ?? [])]);
    const roots = new Set(readers.map((reader) => rootOf[reader] ?? reader));
    const [root] = roots;
    if (roots.size === 1 && root !== undefined) rootOf[index] = root;
  }
}

function touchedParameters(
  operators: readonly OnnxOperator[],
  parameters: ReadonlySet<string>,
  shapeOf: ShapeOf,
): number {
  return sum(
    operators.flatMap((operator) =>
      operator.inputs.map((name, place) =>
        parameters.has(name) ? touchedBytes(operator, place, shapeOf) : 0,
      ),
    ),
  );
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);
