/**
 * @file Certifies and improves a plan within a stated time: the paper's MILP (equations 1 to 23), a search from its answer, and the bound.
 *
 * The MILP plans submodel by submodel, each within its share of the time. Its answer and the present plan are starts of a second search
 * with another seed. The executor judges: a candidate replaces the plan only when it fits, is faster without noise, and is no slower over the
 * same draws of noise, so the result is never worse. The gap is to the lower bound of `bounds.ts`, which holds for every plan; what the MILP
 * proves is optimal by its own arithmetic and within a submodel only.
 * Cost: the MILP's time limit, one search, and two executions a candidate and draw.
 */

import type { InferencePlan } from "../../domain/model/inference-plan.ts";
import type { MilpSolver } from "../../lib/milp.ts";
import { randomFrom } from "../../lib/random.ts";
import { bounds } from "./bounds.ts";
import { planOf } from "./decisions.ts";
import { estimator } from "./estimate.ts";
import { execute } from "./executor.ts";
import { milpPlan, type MilpPlan } from "./milp-plan.ts";
import type { FoundPlan } from "./plan-facts.ts";
import type { PlanningProblem } from "./problem.ts";
import { searchPlan } from "./search.ts";
import { submodels } from "./submodels.ts";

export interface PolishOptions {
  readonly solver: MilpSolver;
  /** What is left of the time for the MILPs, milliseconds; below zero they are given up. */
  readonly remainingMs: () => number;
}

export interface Polished extends FoundPlan {
  readonly simulatedMs: number;
  /** Of the plan that was given. */
  readonly formerMs: number;
  /** How far the plan is from the bound at most, as a share of its time. */
  readonly gap: number;
  readonly submodels: number;
  /** Submodels whose MILP was solved to its proven optimum. */
  readonly proven: number;
}

const POLISH = Object.freeze({
  /** Slots a GPU: the fewest that the paper uses, because open solvers prove little beyond them. */
  q: 2,
  nDom: 1,
  seed: 2,
  /** Draws of kernel noise over which no candidate may be slower. */
  draws: 4,
});

export async function polishPlan(
  problem: PlanningProblem,
  found: FoundPlan,
  options: PolishOptions,
): Promise<Polished> {
  const milp = await milpInTime(problem, options);
  const answers = milp === undefined ? [] : [milp.decisions];
  const starts = [found.decisions, ...answers];
  const searched = searchPlan(problem, { seed: POLISH.seed, starts });
  if (searched.kind === "planned") answers.push(searched.decisions);
  const former = judged(problem, found.plan);
  let best = { ...found, ...former };
  for (const decisions of answers) {
    const plan = planOf(problem, decisions);
    const made = judged(problem, plan);
    const isBetter =
      made.isFitting && made.simulatedMs < best.simulatedMs && made.noisyMs <= best.noisyMs;
    if (!isBetter) continue;
    const expectedMs = estimator(problem).latencyMs(decisions);
    best = { decisions, plan, expectedMs, ...made };
  }
  const { decisions, plan, expectedMs, simulatedMs } = best;
  const { lowerMs } = bounds(problem);
  return {
    decisions,
    plan,
    expectedMs,
    simulatedMs,
    formerMs: former.simulatedMs,
    gap: simulatedMs > 0 ? Math.max(0, 1 - lowerMs / simulatedMs) : 0,
    submodels: submodels(problem, POLISH.nDom).length,
    proven: milp?.submodels.filter(({ status }) => status === "optimal").length ?? 0,
  };
}

/** Undefined when the time is over before the last submodel, or when a submodel has no plan in its slots. */
async function milpInTime(
  problem: PlanningProblem,
  { solver, remainingMs }: PolishOptions,
): Promise<MilpPlan | undefined> {
  const { q, nDom } = POLISH;
  try {
    return await milpPlan(problem, solver, {
      q,
      nDom,
      timeLimitMs: (left) => Math.max(1, remainingMs() / left),
      onSubmodel: () => {
        if (remainingMs() < 0) throw new Error("the time for the MILPs is over");
      },
    });
  } catch {
    return undefined;
  }
}

interface Judged {
  readonly isFitting: boolean;
  readonly simulatedMs: number;
  /** Mean over draws of kernel noise. */
  readonly noisyMs: number;
}

function judged(problem: PlanningProblem, plan: InferencePlan): Judged {
  const { latencyMs, peakBytes } = execute(problem, plan);
  let noisy = 0;
  for (let draw = 0; draw < POLISH.draws; draw += 1)
    noisy += execute(problem, plan, { random: randomFrom(POLISH.seed, `judge ${draw}`) }).latencyMs;
  return {
    isFitting: peakBytes.every((bytes, gpu) => bytes <= (problem.memoryBytes[gpu] ?? 0)),
    simulatedMs: latencyMs,
    noisyMs: noisy / POLISH.draws,
  };
}
