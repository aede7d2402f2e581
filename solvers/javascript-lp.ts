/**
 * @file javascript-lp-solver behind the solver port: small problems in a millisecond, without loading anything large.
 *
 * It knows variables from 0 up only, so each is shifted or mirrored to its finite bound. An answer that it calls feasible may be the
 * fractional relaxation (after its time limit), and it may stop early within a tolerance: every answer is checked, and is `optimal` only if
 * the search ended before its time. It does not keep its time limit on large problems, so `solverFor` gives it none of those.
 */

import type { Model } from "javascript-lp-solver";
import {
  checkAnswer,
  checkProblem,
  mergedTerms,
  objectiveOf,
  roundedValues,
  type MilpAnswer,
  type MilpLimits,
  type MilpProblem,
  type MilpSolver,
  type MilpVariable,
} from "../lib/milp.ts";

const OBJECTIVE = "objective";

export const javascriptLpSolver: MilpSolver = {
  name: "javascript-lp-solver",
  async solve(problem, limits) {
    const wrong = checkProblem(problem);
    if (wrong !== undefined) return { status: "no-answer", reason: `malformed problem: ${wrong}` };
    const { default: loaded } = await import("javascript-lp-solver");
    // Its types describe the CommonJS form, in which the solver lies one level deeper than in the ES module that Node takes.
    const solver = loaded as unknown as typeof loaded.default;
    const startedMs = performance.now();
    const reply: unknown = solver.Solve(modelOf(problem, limits));
    const solution = new Map(Object.entries(reply ?? {}));
    const isCut = performance.now() - startedMs >= limits.timeLimitMs;
    return answerOf(problem, { solution, isCut, isGapped: (limits.relativeGap ?? 0) > 0 });
  },
};

interface Reply {
  readonly solution: ReadonlyMap<string, unknown>;
  readonly isCut: boolean;
  readonly isGapped: boolean;
}

function answerOf(problem: MilpProblem, { solution, isCut, isGapped }: Reply): MilpAnswer {
  if (solution.get("bounded") === false)
    return { status: "unbounded", reason: `${problem.name}: the objective has no limit` };
  if (solution.get("feasible") !== true) {
    return isCut
      ? { status: "no-answer", reason: `${problem.name}: no solution in time` }
      : { status: "infeasible", reason: `${problem.name}: no values satisfy all rows` };
  }
  const raw = problem.variables.map((variable, at) => {
    const found = solution.get(nameOf(at));
    return unshifted(variable, typeof found === "number" ? found : 0);
  });
  const fractional = checkAnswer(problem, raw);
  const values = roundedValues(problem, raw);
  const missed = fractional ?? checkAnswer(problem, values);
  if (missed !== undefined) {
    const reason = `javascript-lp-solver answered what does not hold: ${missed}`;
    return { status: "no-answer", reason };
  }
  const objective = objectiveOf(problem, values);
  if (isCut || isGapped) return { status: "feasible", values, objective };
  return { status: "optimal", values, objective, bound: objective, gap: 0 };
}

function modelOf(problem: MilpProblem, limits: MilpLimits): Model {
  const constraints: Record<string, { min?: number; max?: number; equal?: number }> = {};
  const columns = problem.variables.map((variable): Record<string, number> => ({
    [OBJECTIVE]: variable.cost * signOf(variable),
  }));
  for (const [at, variable] of problem.variables.entries()) {
    const column = columns[at];
    if (column === undefined || !Number.isFinite(variable.upper - variable.lower)) continue;
    constraints[`u${at}`] = { max: variable.upper - shiftOf(variable) };
    column[`u${at}`] = 1;
  }
  for (const [at, { terms, lower, upper }] of problem.rows.entries()) {
    let shift = 0;
    for (const { variable, coefficient } of mergedTerms(terms)) {
      const of = problem.variables[variable];
      const column = columns[variable];
      if (of === undefined || column === undefined) continue;
      shift += coefficient * shiftOf(of);
      column[`r${at}`] = coefficient * signOf(of);
    }
    constraints[`r${at}`] =
      lower === upper
        ? { equal: lower - shift }
        : {
            ...(lower > -Infinity && { min: lower - shift }),
            ...(upper < Infinity && { max: upper - shift }),
          };
  }
  const named = (is: (variable: MilpVariable) => boolean): Record<string, 1> =>
    Object.fromEntries(
      problem.variables.flatMap((variable, at) => (is(variable) ? [[nameOf(at), 1 as const]] : [])),
    );
  return {
    optimize: OBJECTIVE,
    opType: problem.sense === "minimise" ? "min" : "max",
    constraints,
    variables: Object.fromEntries(columns.map((column, at) => [nameOf(at), column])),
    ints: named(({ isInteger }) => isInteger),
    unrestricted: named(({ lower, upper }) => lower === -Infinity && upper === Infinity),
    options: {
      timeout: limits.timeLimitMs,
      ...(limits.relativeGap !== undefined && { tolerance: limits.relativeGap }),
    },
  };
}

const nameOf = (at: number): string => `x${at}`;

/** −1 for a variable that has an upper bound only: what the solver sees is its distance from that bound. */
const signOf = ({ lower, upper }: MilpVariable): 1 | -1 =>
  lower === -Infinity && upper < Infinity ? -1 : 1;

function shiftOf({ lower, upper, isInteger }: MilpVariable): number {
  if (lower > -Infinity) return isInteger ? Math.ceil(lower) : lower;
  if (upper < Infinity) return isInteger ? Math.floor(upper) : upper;
  return 0;
}

const unshifted = (variable: MilpVariable, value: number): number =>
  shiftOf(variable) + signOf(variable) * value;
