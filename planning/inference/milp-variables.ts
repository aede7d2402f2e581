/**
 * @file The variables and rows of a submodel's MILP while it is written, and the figures that its equations share.
 *
 * Names of variables and rows are those of SortingHat §3.3 with their indices: v a node, j a slot, i a GPU.
 * Not reached by the product yet: used by `bench inference` and tests.
 */

import type { MilpRow, MilpTerm, MilpVariable } from "../../lib/milp.ts";
import {
  seriesHorizonMs,
  type MilpEdges,
  type MilpNode,
  type SubmodelState,
} from "./milp-nodes.ts";
import type { Slots } from "./milp-slots.ts";
import type { PlanningProblem } from "./problem.ts";

/** Sizes are in MB. */
export const MB = 1e6;

/** Milliseconds by place in the list of nodes and slot. */
export interface SlotCosts {
  readonly busFinMs: (slot: number) => number;
  readonly gpuFinMs: (slot: number) => number;
  /** Copy of a parameter from host memory. */
  readonly copyMs: (node: number, slot: number) => number;
  /** Copy of a node from another GPU. */
  readonly fetchMs: (node: number, from: number, slot: number) => number;
  readonly runMs: (node: number, slot: number) => number;
}

/** The submodel as the equations read it. */
export interface MilpInput {
  /** With adjusted costs. */
  readonly problem: PlanningProblem;
  readonly state: SubmodelState;
  readonly slots: Slots;
  readonly nodes: readonly MilpNode[];
  readonly edges: MilpEdges;
  readonly horizonMs?: number | undefined;
}

type BySlot = (slot: number) => number;

export interface Program extends MilpInput {
  readonly variables: readonly MilpVariable[];
  readonly rows: readonly MilpRow[];
  readonly row: (
    name: string,
    terms: readonly MilpTerm[],
    bounds: readonly [number, number],
  ) => void;
  readonly atLeast: (name: string, terms: readonly MilpTerm[], least: number) => void;
  readonly costs: SlotCosts;
  /** Slots but host memory, ascending. */
  readonly placed: readonly number[];
  readonly gpus: readonly number[];
  /** MB by node. */
  readonly size: readonly number[];
  /** H, the large constant of conditional rows. */
  readonly infinity: number;
  readonly isFixed: readonly boolean[];
  readonly x: (node: number, slot: number) => number;
  readonly dtStart: BySlot;
  readonly dtFin: BySlot;
  readonly sgStart: BySlot;
  readonly sgFin: BySlot;
  readonly nodeFin: readonly number[];
  readonly total: number;
  readonly z: readonly BySlot[];
  /** Absent for a node without readers. */
  readonly edgeIn: readonly (BySlot | undefined)[];
  readonly copyIn: readonly (readonly BySlot[] | undefined)[];
}

/** A term of a row. */
export const t = (variable: number, coefficient = 1): MilpTerm => ({ variable, coefficient });

export function openProgram(input: MilpInput): Program {
  const { problem, slots, nodes, edges, state } = input;
  const variables: MilpVariable[] = [];
  const rows: MilpRow[] = [];
  const row: Program["row"] = (name, terms, [lower, upper]) => {
    rows.push({ name, terms, lower, upper });
  };
  const variable = (name: string, upper: number, isInteger = false): number =>
    variables.push({ name, lower: 0, upper, isInteger, cost: name === "TotalLatency" ? 1 : 0 }) - 1;
  const placed = Array.from({ length: slots.last }, (_, at) => at + 1);
  const gpus = Array.from({ length: problem.gpuCount }, (_, gpu) => gpu);
  const size = nodes.map(({ kind, index }) => sizeMb(problem, kind, index));
  const isFixed = nodes.map(({ fixedOn }) => fixedOn !== undefined);
  const infinity = input.horizonMs ?? seriesHorizonMs(problem, nodes, state);
  const table = (name: string, upper = infinity): BySlot => {
    const own = placed.map((j) => variable(`${name} ${j}`, upper));
    return (j) => own[j - 1] ?? 0;
  };
  const xAt = nodes.map((_, v) =>
    Array.from({ length: slots.last + 1 }, (__, j) => variable(`x ${v} ${j}`, 1, true)),
  );
  const hasReader = nodes.map((_, v) => edges.some(([u]) => u === v));
  return {
    ...input,
    variables,
    rows,
    row,
    atLeast: (name, terms, least) => row(name, terms, [least, Infinity]),
    costs: slotCosts(input, size),
    placed,
    gpus,
    size,
    infinity,
    isFixed,
    x: (v, j) => xAt[v]?.[j] ?? 0,
    // Variables are numbered in the order of these lines.
    dtStart: table("DTStart"),
    dtFin: table("DTFin"),
    sgStart: table("SGStart"),
    sgFin: table("SGFin"),
    nodeFin: nodes.map((_, v) => variable(`NodeFin ${v}`, infinity)),
    total: variable("TotalLatency", infinity),
    z: nodes.map((_, v) => table(`z ${v}`, 1)),
    edgeIn: nodes.map((_, v) => (hasReader[v] === true ? table(`EdgeIn ${v}`, 1) : undefined)),
    copyIn: nodes.map((_, v) =>
      hasReader[v] === true ? gpus.map((i) => table(`CopyIn ${v} ${i}`, 1)) : undefined,
    ),
  };
}

const sizeMb = (
  { outputBytes, parameterBytes }: PlanningProblem,
  kind: MilpNode["kind"],
  index: number,
): number => ((kind === "operation" ? outputBytes[index] : parameterBytes[index]) ?? 0) / MB;

function slotCosts(
  { problem, state, slots, nodes }: MilpInput,
  size: readonly number[],
): SlotCosts {
  const { gpuCount, kernelMs, directMs, peerMsPerByte, busMsPerByte } = problem;
  return {
    busFinMs: (slot) => state.busFinMs[slots.busOf(slot)] ?? 0,
    gpuFinMs: (slot) => state.gpuFinMs[slots.gpuOf(slot)] ?? 0,
    copyMs: (w, slot) =>
      nodes[w]?.kind === "parameter" && nodes[w]?.fixedOn === undefined
        ? (size[w] ?? 0) * (busMsPerByte[slots.busOf(slot)] ?? 0) * MB
        : 0,
    fetchMs: (v, from, slot) =>
      (size[v] ?? 0) * (peerMsPerByte[from * gpuCount + slots.gpuOf(slot)] ?? 0) * MB,
    runMs: (v, slot) => {
      const { kind, index, fixedOn } = nodes[v] ?? { kind: "parameter", index: 0 };
      if (kind === "parameter" || fixedOn !== undefined) return 0;
      return (slot % 2 === 0 ? kernelMs : directMs)[index * gpuCount + slots.gpuOf(slot)] ?? 0;
    },
  };
}
