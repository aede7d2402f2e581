/**
 * @file The nodes and edges of a submodel's MILP: its operations, the parameters they read, and results of earlier submodels.
 *
 * A node is fixed where it lies on a GPU already: a placeholder, or a parameter that an earlier submodel copied or that is resident.
 * Cost: O(operations + edges). Not reached by the product yet: used by `bench inference` and tests.
 */

import { listAt, type PlanningProblem } from "./problem.ts";
import type { Submodel } from "./submodels.ts";

/** The result of the earlier submodels' MILPs. */
export interface SubmodelState {
  /** By bus (`PrevDTFin`). */
  readonly busFinMs: readonly number[];
  /** By GPU (`PrevSGFin`). */
  readonly gpuFinMs: readonly number[];
  /** By GPU (`PrevM`). */
  readonly heldBytes: readonly number[];
  /** GPU of each placed operation. */
  readonly gpuOf: ReadonlyMap<number, number>;
  /** GPU of each copied parameter. */
  readonly parameterOn: ReadonlyMap<number, number>;
}

export interface MilpNode {
  readonly kind: "operation" | "parameter";
  readonly index: number;
  /** GPU on which the node lies already (`FixedNodes`). */
  readonly fixedOn?: number;
  /** GPU on which an earlier submodel placed an operation of its group. */
  readonly boundTo?: number;
}

/** Pairs of places in the list of nodes: the node that is read, and its reader. */
export type MilpEdges = readonly (readonly [number, number])[];

export function nodesOf(
  problem: PlanningProblem,
  submodel: Submodel,
  state: SubmodelState,
): MilpNode[] {
  const parameters = new Set(
    submodel.operations.flatMap((each) => [...listAt(problem.parametersOf, each)]),
  );
  return [
    ...submodel.placeholders.map((index): MilpNode => ({
      kind: "operation",
      index,
      fixedOn: state.gpuOf.get(index) ?? 0,
    })),
    ...[...parameters].map((index): MilpNode => {
      const on = state.parameterOn.get(index) ?? residentOn(problem, index);
      return { kind: "parameter", index, ...(on !== undefined && { fixedOn: on }) };
    }),
    ...submodel.operations.map((index): MilpNode => {
      const placed = listAt(problem.together, index).find((each) => state.gpuOf.has(each));
      const boundTo = placed === undefined ? undefined : state.gpuOf.get(placed);
      return { kind: "operation", index, ...(boundTo !== undefined && { boundTo }) };
    }),
  ];
}

function residentOn(
  { isResident, gpuCount }: PlanningProblem,
  parameter: number,
): number | undefined {
  const gpu = isResident.subarray(parameter * gpuCount, (parameter + 1) * gpuCount).indexOf(1);
  return gpu < 0 ? undefined : gpu;
}

export function edgesOf(
  problem: PlanningProblem,
  { operations }: Submodel,
  nodes: readonly MilpNode[],
): MilpEdges {
  const at = new Map(nodes.map(({ kind, index }, place) => [`${kind} ${index}`, place]));
  return operations.flatMap((operation) => {
    const to = at.get(`operation ${operation}`) ?? 0;
    const read = [
      ...[...listAt(problem.parametersOf, operation)].map((index) => `parameter ${index}`),
      ...[...listAt(problem.inputs, operation)].map((index) => `operation ${index}`),
    ];
    return read.flatMap((key) => {
      const from = at.get(key);
      return from === undefined ? [] : [[from, to] as const];
    });
  });
}

/** H: no useful schedule takes longer than all work in series at its slowest. */
export function seriesHorizonMs(
  problem: PlanningProblem,
  nodes: readonly MilpNode[],
  state: SubmodelState,
): number {
  const { gpuCount, directMs, kernelMs } = problem;
  const bus = Math.max(...problem.busMsPerByte);
  const peer = Math.max(...problem.peerMsPerByte);
  let sum = Math.max(0, ...state.busFinMs, ...state.gpuFinMs);
  for (const { kind, index } of nodes) {
    if (kind === "parameter") sum += (problem.parameterBytes[index] ?? 0) * (bus + gpuCount * peer);
    else {
      const cells = [index * gpuCount, (index + 1) * gpuCount] as const;
      sum += (problem.outputBytes[index] ?? 0) * peer * gpuCount;
      sum += Math.max(...kernelMs.subarray(...cells), ...directMs.subarray(...cells));
    }
  }
  return sum + 1;
}
