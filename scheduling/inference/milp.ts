/**
 * @file SortingHat's mixed-integer program of one submodel (§3.3), equation by equation.
 *
 * Nodes are the submodel's operations and parameters, and what earlier submodels left on the GPUs (FixedNodes: placeholders, and
 * parameters that are there). `x` says which slot a node is in; z, EdgeIn and CopyIn follow from it and need no integrality of their
 * own, since their rows have whole right-hand sides once x is whole. Sizes are in MB, times in ms. What is fixed is neither copied
 * nor counted again. Groups, which the paper does not have, are rows of their own: whatever slots their operations take lie on one GPU. Size: (nodes × slots) binaries and about (edges × slots × GPUs) rows.
 */

import type { MilpProblem, MilpRow, MilpTerm, MilpVariable } from "../../lib/milp.ts";
import { adjustedCosts } from "./adjusted-costs.ts";
import { slotsFor, type Slots } from "./milp-slots.ts";
import { listAt, type PlanningProblem } from "./problem.ts";
import type { Submodel } from "./submodels.ts";

/** What the MILPs before this one have settled. */
export interface SubmodelState {
  /** By bus (`PrevDTFin`). */
  readonly busFinMs: readonly number[];
  /** By GPU (`PrevSGFin`). */
  readonly gpuFinMs: readonly number[];
  /** By GPU (`PrevM`). */
  readonly heldBytes: readonly number[];
  /** GPU of each operation that has been placed. */
  readonly gpuOf: ReadonlyMap<number, number>;
  /** GPU of each parameter that has been copied. */
  readonly parameterOn: ReadonlyMap<number, number>;
}

export interface SubmodelMilp {
  readonly milp: MilpProblem;
  readonly slots: Slots;
  readonly nodes: readonly MilpNode[];
  /** Pairs of places in `nodes`: what is read, who reads it. */
  readonly edges: readonly (readonly [number, number])[];
  /** What the equations weigh slots and nodes with, by place in `nodes` and slot. */
  readonly costs: SlotCosts;
  /** Variable of `x` for a node (by place in `nodes`) and a slot. */
  readonly x: (node: number, slot: number) => number;
  readonly sgStart: (slot: number) => number;
}

export interface SlotCosts {
  readonly busFinMs: (slot: number) => number;
  readonly gpuFinMs: (slot: number) => number;
  /** Of a parameter out of host memory. */
  readonly copyMs: (node: number, slot: number) => number;
  /** Of a node from another GPU. */
  readonly fetchMs: (node: number, from: number, slot: number) => number;
  readonly runMs: (node: number, slot: number) => number;
}

export interface MilpNode {
  readonly kind: "operation" | "parameter";
  readonly index: number;
  /** Where it already is (`FixedNodes`). */
  readonly fixedOn?: number;
  /** GPU on which an earlier submodel placed an operation of its group. */
  readonly boundTo?: number;
}

export interface MilpOptions {
  readonly state: SubmodelState;
  readonly q?: number;
  /** H: a latency that is known to be reachable, so that nothing slower need be looked at. Everything in series when absent. */
  readonly horizonMs?: number;
}

const MB = 1e6;

export function submodelMilp(
  unadjusted: PlanningProblem,
  submodel: Submodel,
  { state, q = 6, horizonMs }: MilpOptions,
): SubmodelMilp {
  const problem = adjustedCosts(unadjusted);
  const { gpuCount, kernelMs, directMs } = problem;
  const slots = slotsFor(problem.busOf, q);
  const nodes = nodesOf(problem, submodel, state);
  const edges = edgesOf(problem, submodel, nodes);
  const placed = Array.from({ length: slots.last }, (_, at) => at + 1);
  const gpus = Array.from({ length: gpuCount }, (_, gpu) => gpu);

  const variables: MilpVariable[] = [];
  const rows: MilpRow[] = [];
  const variable = (name: string, upper: number, isInteger = false): number =>
    variables.push({ name, lower: 0, upper, isInteger, cost: name === "TotalLatency" ? 1 : 0 }) - 1;
  const row = (
    name: string,
    terms: readonly MilpTerm[],
    [lower, upper]: readonly [number, number],
  ): void => {
    rows.push({ name, terms, lower, upper });
  };
  const atLeast = (name: string, terms: readonly MilpTerm[], least: number): void =>
    row(name, terms, [least, Infinity]);
  const t = (at: number, coefficient = 1): MilpTerm => ({ variable: at, coefficient });

  const size = nodes.map(
    ({ kind, index }) =>
      ((kind === "operation" ? problem.outputBytes[index] : problem.parameterBytes[index]) ?? 0) /
      MB,
  );
  const fixed = nodes.map(({ fixedOn }) => fixedOn !== undefined);
  const costs: SlotCosts = {
    busFinMs: (slot) => state.busFinMs[slots.busOf(slot)] ?? 0,
    gpuFinMs: (slot) => state.gpuFinMs[slots.gpuOf(slot)] ?? 0,
    copyMs: (w, slot) =>
      nodes[w]?.kind === "parameter" && fixed[w] !== true
        ? (size[w] ?? 0) * (problem.busMsPerByte[slots.busOf(slot)] ?? 0) * MB
        : 0,
    fetchMs: (v, from, slot) =>
      (size[v] ?? 0) * (problem.peerMsPerByte[from * gpuCount + slots.gpuOf(slot)] ?? 0) * MB,
    runMs: (v, slot) => {
      const { kind, index } = nodes[v] ?? { kind: "parameter", index: 0 };
      if (kind === "parameter" || fixed[v] === true) return 0;
      return (slot % 2 === 0 ? kernelMs : directMs)[index * gpuCount + slots.gpuOf(slot)] ?? 0;
    },
  };
  const infinity = horizonMs ?? seriesHorizonMs(problem, nodes, state);

  const xAt = nodes.map((_, v) =>
    Array.from({ length: slots.last + 1 }, (__, j) => variable(`x ${v} ${j}`, 1, true)),
  );
  const x = (v: number, j: number): number => xAt[v]?.[j] ?? 0;
  const table = (name: string, upper = infinity): ((j: number) => number) => {
    const own = placed.map((j) => variable(`${name} ${j}`, upper));
    return (j) => own[j - 1] ?? 0;
  };
  const dtStart = table("DTStart");
  const dtFin = table("DTFin");
  const sgStart = table("SGStart");
  const sgFin = table("SGFin");
  const nodeFin = nodes.map((_, v) => variable(`NodeFin ${v}`, infinity));
  const total = variable("TotalLatency", infinity);
  const z = nodes.map((_, v) => table(`z ${v}`, 1));
  const hasReader = nodes.map((_, v) => edges.some(([u]) => u === v));
  const edgeIn = nodes.map((_, v) => (hasReader[v] === true ? table(`EdgeIn ${v}`, 1) : undefined));
  const copyIn = nodes.map((_, v) =>
    hasReader[v] === true ? gpus.map((i) => table(`CopyIn ${v} ${i}`, 1)) : undefined,
  );

  for (const [v, node] of nodes.entries()) {
    // (2) every node is in one slot
    row(`(2) ${v}`, xAt[v]?.map((at) => t(at)) ?? [], [1, 1]);
    // (3) what is placed already begins in the first slot of its GPU
    if (node.fixedOn !== undefined) row(`(3) ${v}`, [t(x(v, node.fixedOn * q + 1))], [1, 1]);
    // (4) operations are never in host memory
    if (node.kind === "operation") row(`(4) ${v}`, [t(x(v, 0))], [0, 0]);
  }
  const onGpu = (v: number, i: number, coefficient: number): MilpTerm[] =>
    placed.filter((j) => slots.gpuOf(j) === i).map((j) => t(x(v, j), coefficient));
  const leaders = new Map<number, number>();
  for (const [v, { kind, index, fixedOn, boundTo }] of nodes.entries()) {
    const first = kind === "operation" ? listAt(problem.together, index)[0] : undefined;
    if (first === undefined || fixedOn !== undefined) continue;
    const leader = leaders.get(first);
    leaders.set(first, leader ?? v);
    if (boundTo !== undefined) row(`(group) ${v}`, onGpu(v, boundTo, 1), [1, 1]);
    else if (leader !== undefined)
      for (const i of gpus)
        row(`(group) ${v} ${i}`, [...onGpu(v, i, 1), ...onGpu(leader, i, -1)], [0, 0]);
  }
  for (const [u, v] of edges) {
    if (nodes[u]?.kind === "parameter") {
      // (5) a parameter stays in host memory exactly when its readers read it directly
      const direct = placed.filter((j) => j % 2 === 1).map((j) => t(x(v, j), -1));
      row(`(5) ${u} ${v}`, [t(x(u, 0)), ...direct], [0, 0]);
    }
    for (const j of placed) {
      // (7) (8) with (6): a slot is contiguous
      if (z[u] !== undefined && z[v] !== undefined) {
        atLeast(`(7) ${u} ${v} ${j}`, [t(z[u](j)), t(z[v](j), -1)], 0);
        atLeast(`(8) ${u} ${v} ${j}`, [t(x(v, j)), t(x(u, j), -1), t(z[v](j), -1)], -1);
      }
      // (9) a slot has an edge coming in from a node outside of it
      const into = edgeIn[u]?.(j);
      if (into !== undefined)
        atLeast(`(9) ${u} ${v} ${j}`, [t(into), t(x(v, j), -1), t(x(u, j))], 0);
      // (20) parameter and reader in one slot: the copy comes first
      if (nodes[u]?.kind === "parameter")
        atLeast(
          `(20) ${u} ${v} ${j}`,
          [t(sgStart(j)), t(nodeFin[u] ?? 0, -1), t(x(u, j), -infinity), t(x(v, j), -infinity)],
          -2 * infinity,
        );
    }
  }
  for (const v of nodes.keys()) {
    for (const j of placed) {
      // (6) a slot is reachable from what is in it
      const reach = z[v]?.(j) ?? 0;
      atLeast(`(6) ${v} ${j}`, [t(reach), t(x(v, j), -1)], 0);
      const into = edgeIn[v]?.(j);
      if (into !== undefined) {
        for (const i of gpus) {
          const copy = copyIn[v]?.[i]?.(j);
          if (copy === undefined || i === slots.gpuOf(j)) continue;
          // (10) it must be copied when it is on another GPU
          const there = placed
            .filter((each) => slots.gpuOf(each) === i)
            .map((each) => t(x(v, each), -1));
          atLeast(`(10) ${v} ${i} ${j}`, [t(copy), ...there, t(into, -1)], -1);
        }
        // (19) all that comes in is ready
        atLeast(
          `(19) ${v} ${j}`,
          [t(sgStart(j)), t(nodeFin[v] ?? 0, -1), t(into, -infinity)],
          -infinity,
        );
      }
      // (15) (16) when a node is ready
      const end = nodes[v]?.kind === "operation" ? sgFin(j) : dtFin(j);
      const equation = nodes[v]?.kind === "operation" ? "(15)" : "(16)";
      // A parameter that was there before waits for no copy.
      if (nodes[v]?.kind === "parameter" && fixed[v] === true) continue;
      atLeast(
        `${equation} ${v} ${j}`,
        [t(nodeFin[v] ?? 0), t(end, -1), t(x(v, j), -infinity)],
        -infinity,
      );
    }
  }
  for (const i of gpus) {
    // (11) memory: what is copied here, what is placed here, what was here
    const own = placed.filter((j) => slots.gpuOf(j) === i);
    const terms = nodes.flatMap((_, v) => [
      ...own.flatMap((j) =>
        gpus.flatMap((other) => {
          const copy = other === i ? undefined : copyIn[v]?.[other]?.(j);
          return copy === undefined ? [] : [t(copy, size[v])];
        }),
      ),
      ...(fixed[v] === true ? [] : own.map((j) => t(x(v, j), size[v]))),
    ]);
    const room = (problem.memoryBytes[i] ?? 0) - (state.heldBytes[i] ?? 0);
    row(`(11) ${i}`, terms, [-Infinity, room / MB]);
  }
  for (const j of placed) {
    const gpu = slots.gpuOf(j);
    const parent = slots.parentDt.get(j);
    // (12) (13) copies of a bus take turns
    if (parent === undefined) {
      const begin = costs.busFinMs(j);
      row(`(12) ${j}`, [t(dtStart(j))], [begin, begin]);
    } else row(`(13) ${j}`, [t(dtStart(j)), t(dtFin(parent), -1)], [0, 0]);
    // (14) copies take their bytes over the bus
    const copied = nodes.flatMap((_, w) => {
      const ms = costs.copyMs(w, j);
      return ms === 0 ? [] : [t(x(w, j), -ms)];
    });
    row(`(14) ${j}`, [t(dtFin(j)), t(dtStart(j), -1), ...copied], [0, 0]);
    // (17) (18) slots of a GPU follow one another
    if (j % q === 1) atLeast(`(17) ${j}`, [t(sgStart(j))], costs.gpuFinMs(j));
    else atLeast(`(18) ${j}`, [t(sgStart(j)), t(sgFin(j - 1), -1)], 0);
    // (21) (22) copies from other GPUs, then kernels: even slots with copied parameters, odd ones with direct access
    const fetched = nodes.flatMap((_, v) =>
      gpus.flatMap((i) => {
        const copy = i === gpu ? undefined : copyIn[v]?.[i]?.(j);
        return copy === undefined ? [] : [t(copy, -costs.fetchMs(v, i, j))];
      }),
    );
    const run = nodes.flatMap((_, v) => {
      const ms = costs.runMs(v, j);
      return ms === 0 ? [] : [t(x(v, j), -ms)];
    });
    const equation = j % 2 === 0 ? "(21)" : "(22)";
    row(`${equation} ${j}`, [t(sgFin(j)), t(sgStart(j), -1), ...fetched, ...run], [0, 0]);
    // (23) the last slot of each GPU
    if (j % q === 0) atLeast(`(23) ${j}`, [t(total), t(sgFin(j), -1)], 0);
  }
  // (1) minimise TotalLatency: the only variable with a cost
  const milp = {
    name: `submodel of ${nodes.length} nodes`,
    sense: "minimise",
    variables,
    rows,
  } as const;
  return { milp, slots, nodes, edges, costs, x, sgStart };
}

function nodesOf(problem: PlanningProblem, submodel: Submodel, state: SubmodelState): MilpNode[] {
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

/** Pairs of places in `nodes`. */
function edgesOf(
  problem: PlanningProblem,
  { operations }: Submodel,
  nodes: readonly MilpNode[],
): (readonly [number, number])[] {
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

/** H: no useful schedule takes longer than everything one after the other at its slowest. */
function seriesHorizonMs(
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
