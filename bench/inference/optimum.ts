/**
 * @file One random case solved to proof by HiGHS, and what the search finds on the same costs.
 *
 * The proven figure is `TotalLatency` of equations 1 to 23 with the constants of §3.4, gap 0. The search is asked on the same constants
 * with the same arithmetic of copies (the estimate's `milp` model); it has no slots, so it may fall below the optimum of the slots.
 * H is a latency that a descent over slots reached: it cuts off nothing that could be optimal.
 */

import type { MilpSolver } from "../../lib/milp.ts";
import { checkAnswer } from "../../lib/milp.ts";
import { randomFrom } from "../../lib/random.ts";
import { adjustedCosts } from "../../planning/inference/adjusted-costs.ts";
import { chosenSlots, plainSlots } from "../../planning/inference/milp-plan.ts";
import { submodelMilp, type SubmodelMilp } from "../../planning/inference/milp.ts";
import type { SubmodelState } from "../../planning/inference/milp-nodes.ts";
import type { PlanningProblem } from "../../planning/inference/problem.ts";
import { searchPlan } from "../../planning/inference/search.ts";
import { slotValues } from "../../planning/inference/slot-values.ts";
import { randomCase } from "./random-cases.ts";

export interface Proven {
  readonly seed: number;
  readonly q: number;
  readonly nodes: number;
  readonly optimumMs: number;
  /** Slot of each node, so that the figure can be checked. */
  readonly slots: readonly number[];
}

const DESCENT_STEPS = 600;

const emptyState = (problem: PlanningProblem): SubmodelState => ({
  busFinMs: problem.host.buses.map(() => 0),
  gpuFinMs: problem.host.gpus.map(() => 0),
  heldBytes: problem.host.gpus.map(() => 0),
  gpuOf: new Map(),
  parameterOn: new Map(),
});

const wholeModel = ({ operationCount }: PlanningProblem) => ({
  operations: Array.from({ length: operationCount }, (_, index) => index),
  placeholders: [],
});

/** Undefined when the solver did not prove it within its time. */
export async function proveCase(
  solver: MilpSolver,
  seed: number,
  { q, timeLimitMs }: { readonly q: number; readonly timeLimitMs: number },
): Promise<Proven | undefined> {
  const problem = randomCase(seed);
  const state = emptyState(problem);
  const whole = wholeModel(problem);
  const loose = submodelMilp(problem, whole, { state, q });
  const slots = descend(problem, loose, seed);
  const horizonMs = totalOf(loose, slots) * (1 + 1e-6);
  const tight = submodelMilp(problem, whole, { state, q, horizonMs });
  const start = slotValues(tight, slots);
  const answer = await solver.solve(tight.milp, { timeLimitMs, relativeGap: 0, start });
  if (answer.status !== "optimal") return undefined;
  const found = chosenSlots(tight, answer.values);
  return {
    seed,
    q,
    nodes: loose.nodes.length,
    optimumMs: totalOf(loose, found),
    slots: found,
  };
}

/** The latency of recorded slots under equations 1 to 23; undefined when they break one. */
export function recordedMs({ seed, q, slots }: Proven): number | undefined {
  const problem = randomCase(seed);
  const made = submodelMilp(problem, wholeModel(problem), { state: emptyState(problem), q });
  const isWhole = slots.length === made.nodes.length;
  return isWhole && checkAnswer(made.milp, slotValues(made, slots)) === undefined
    ? totalOf(made, slots)
    : undefined;
}

/** What the search reaches on the constants of the MILP. */
export function searchedMs(seed: number): number {
  const found = searchPlan(adjustedCosts(randomCase(seed)), { model: "milp" });
  return found.kind === "planned" ? found.expectedMs : Infinity;
}

function descend(problem: PlanningProblem, made: SubmodelMilp, seed: number): number[] {
  const random = randomFrom(seed, "descent");
  let best = plainSlots(problem, made);
  let bestMs = totalOf(made, best);
  for (let step = 0; step < DESCENT_STEPS; step += 1) {
    const tried = [...best];
    for (let change = 0; change <= random.below(3); change += 1)
      tried[random.below(tried.length)] = random.below(made.slots.last + 1);
    const values = slotValues(made, tried);
    const ms = values[totalIndex(made)] ?? Infinity;
    if (ms > bestMs || checkAnswer(made.milp, values) !== undefined) continue;
    best = tried;
    bestMs = ms;
  }
  return best;
}

const totalIndex = ({ milp }: SubmodelMilp): number =>
  milp.variables.findIndex(({ name }) => name === "TotalLatency");

const totalOf = (made: SubmodelMilp, slots: readonly number[]): number =>
  slotValues(made, slots)[totalIndex(made)] ?? Infinity;
