/**
 * @file Plans a model submodel by submodel with the MILP, as SortingHat does; each submodel starts from the state of the ones before.
 *
 * Every MILP has the warm start "all on the fastest GPU", so a solver that runs out of time still answers. The values become decisions,
 * which the executor model times like any others. The solver's statuses and gaps are reported unchanged.
 */

import { checkAnswer, type MilpSolver } from "../../lib/milp.ts";
import { IN_HOST, WITH_READER, type Decisions } from "./decisions.ts";
import { submodelMilp, type SubmodelMilp } from "./milp.ts";
import type { SubmodelState } from "./milp-nodes.ts";
import { fastestGpu } from "./rivals.ts";
import { slotValues } from "./slot-values.ts";
import { submodels } from "./submodels.ts";
import { listAt, type PlanningProblem } from "./problem.ts";

export interface MilpPlanOptions {
  readonly nDom?: number;
  readonly q?: number;
  /** Time limit of each submodel, or how it follows from the number of submodels left, this one included. */
  readonly timeLimitMs?: number | ((left: number) => number);
  /** Called before each submodel; an exception ends the planning. */
  readonly onSubmodel?: (done: number, of: number) => void;
}

export interface MilpPlan {
  readonly decisions: Decisions;
  /** `TotalLatency` of the last submodel: the MILP's own estimate. */
  readonly expectedMs: number;
  readonly submodels: readonly MilpOutcome[];
}

export interface MilpOutcome {
  readonly nodes: number;
  /** `start`: the solver found nothing better than the warm start in time. */
  readonly status: "optimal" | "feasible" | "start";
  readonly gap?: number;
}

const MILP_DEFAULTS = Object.freeze({ nDom: 1, q: 6, timeLimitMs: 30_000 });

export async function milpPlan(
  problem: PlanningProblem,
  solver: MilpSolver,
  options: MilpPlanOptions = {},
): Promise<MilpPlan> {
  const { nDom, q, timeLimitMs, onSubmodel } = { ...MILP_DEFAULTS, ...options };
  const parts = submodels(problem, nDom);
  const decisions: Decisions = {
    order: new Int32Array(problem.operationCount),
    gpu: new Int32Array(problem.operationCount),
    landing: new Int32Array(problem.parameterCount).fill(WITH_READER),
  };
  let state: SubmodelState = {
    busFinMs: problem.host.buses.map(() => 0),
    gpuFinMs: problem.host.gpus.map(() => 0),
    heldBytes: problem.host.gpus.map(() => 0),
    gpuOf: new Map(),
    parameterOn: new Map(),
  };
  const outcomes: MilpOutcome[] = [];
  let expectedMs = 0;
  let position = 0;
  for (const [index, part] of parts.entries()) {
    onSubmodel?.(index, parts.length);
    const made = submodelMilp(problem, part, { state, q });
    const start = slotValues(made, plainSlots(problem, made));
    const limitMs =
      typeof timeLimitMs === "number" ? timeLimitMs : timeLimitMs(parts.length - index);
    const answer = await solver.solve(made.milp, { timeLimitMs: limitMs, relativeGap: 0, start });
    const solved = answer.status === "optimal" || answer.status === "feasible" ? answer : undefined;
    const wrong = solved === undefined ? checkAnswer(made.milp, start) : undefined;
    if (wrong !== undefined)
      throw new Error(`submodel ${index + 1} of ${parts.length} has no plan: ${wrong}`);
    outcomes.push({
      nodes: made.nodes.length,
      status: solved?.status ?? "start",
      ...(solved?.gap !== undefined && { gap: solved.gap }),
    });
    const values = solved?.values ?? start;
    const slotOf = chosenSlots(made, values);
    const exact = slotValues(made, slotOf);
    for (const operation of inSlotOrder(problem, made, { slotOf, values: exact })) {
      decisions.order[position] = operation;
      position += 1;
    }
    state = settle(problem, made, { slotOf, values: exact, state, decisions });
    expectedMs = Math.max(expectedMs, ...state.gpuFinMs);
  }
  return { decisions, expectedMs, submodels: outcomes };
}

/**
 * Everything on the fastest GPU, with copies, in its slot 2; an operation that its group binds to another GPU runs there. A return to a
 * GPU takes its next slot for copies, so that slots stay contiguous; where the slots run out, the start breaks a row and is not used.
 */
export function plainSlots(problem: PlanningProblem, { slots, nodes }: SubmodelMilp): number[] {
  const home = fastestGpu(problem);
  const turnOf = new Map<number, number>();
  let last = home;
  return nodes.map(({ kind, fixedOn, boundTo }) => {
    if (fixedOn !== undefined) return fixedOn * slots.q + 1;
    if (kind === "parameter") return home * slots.q + 2;
    const gpu = boundTo ?? home;
    const turn = turnOf.get(gpu);
    const next = turn === undefined ? 2 : Math.min(slots.q, gpu === last ? turn : turn + 2);
    turnOf.set(gpu, next);
    last = gpu;
    return gpu * slots.q + next;
  });
}

/** Slot of each node. */
export function chosenSlots(
  { nodes, slots, x }: SubmodelMilp,
  values: readonly number[],
): number[] {
  return nodes.map((_, v) => {
    let chosen = 0;
    for (let j = 1; j <= slots.last; j += 1) if ((values[x(v, j)] ?? 0) > 0.5) chosen = j;
    return chosen;
  });
}

interface Solved {
  readonly slotOf: readonly number[];
  readonly values: readonly number[];
}

/** The submodel's operations by the start of their slots, inputs first. */
function inSlotOrder(
  problem: PlanningProblem,
  { nodes, sgStart }: SubmodelMilp,
  { slotOf, values }: Solved,
): number[] {
  const rank = new Map<number, readonly [number, number]>();
  for (const [v, { kind, index, fixedOn }] of nodes.entries()) {
    const slot = slotOf[v] ?? 0;
    if (kind === "operation" && fixedOn === undefined)
      rank.set(index, [values[sgStart(slot)] ?? 0, slot]);
  }
  const left = new Set(rank.keys());
  const order: number[] = [];
  while (left.size > 0) {
    const ready = [...left].filter((each) =>
      listAt(problem.inputs, each).every((input) => !left.has(input)),
    );
    ready.sort((a, b) => {
      const [startA = 0, slotA = 0] = rank.get(a) ?? [];
      const [startB = 0, slotB = 0] = rank.get(b) ?? [];
      return startA - startB || slotA - slotB || a - b;
    });
    const next = ready[0];
    if (next === undefined) throw new Error("operations of a submodel wait for each other");
    left.delete(next);
    order.push(next);
  }
  return order;
}

function settle(
  problem: PlanningProblem,
  { nodes, slots, milp }: SubmodelMilp,
  { slotOf, values, state, decisions }: Solved & { state: SubmodelState; decisions: Decisions },
): SubmodelState {
  const gpuOf = new Map(state.gpuOf);
  const parameterOn = new Map(state.parameterOn);
  const heldBytes = [...state.heldBytes];
  for (const [v, { kind, index, fixedOn }] of nodes.entries()) {
    const slot = slotOf[v] ?? 0;
    if (fixedOn !== undefined) continue;
    const gpu = slot === 0 ? IN_HOST : slots.gpuOf(slot);
    if (kind === "operation") {
      gpuOf.set(index, gpu);
      decisions.gpu[index] = gpu;
      continue;
    }
    decisions.landing[index] = gpu;
    if (gpu === IN_HOST) continue;
    parameterOn.set(index, gpu);
    heldBytes[gpu] = (heldBytes[gpu] ?? 0) + (problem.parameterBytes[index] ?? 0);
  }
  const named = new Map(milp.variables.map(({ name }, at) => [name, values[at] ?? 0]));
  const busFinMs = [...state.busFinMs];
  for (let j = 1; j <= slots.last; j += 1) {
    const bus = slots.busOf(j);
    busFinMs[bus] = Math.max(busFinMs[bus] ?? 0, named.get(`DTFin ${j}`) ?? 0);
  }
  const gpuFinMs = state.gpuFinMs.map((before, gpu) =>
    Math.max(before, named.get(`SGFin ${(gpu + 1) * slots.q}`) ?? 0),
  );
  return { busFinMs, gpuFinMs, heldBytes, gpuOf, parameterOn };
}
