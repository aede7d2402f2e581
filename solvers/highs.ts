/**
 * @file HiGHS (compiled to WebAssembly) behind the solver port: problems of any size, with honest time, bound and gap.
 *
 * It blocks its thread while it solves, so long problems belong in a worker thread. One runtime serves the process, and each call has its
 * own model. Integers come back within a tolerance: they are rounded, and when the rounded values miss a row (a large coefficient times a
 * small error) the continuous variables are solved once more with the integers fixed.
 */

import type { Highs, Model, ModelData } from "highs";
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
} from "../lib/milp.ts";

export const highsSolver: MilpSolver = {
  name: "HiGHS",
  async solve(problem, limits) {
    const wrong = checkProblem(problem);
    if (wrong !== undefined) return { status: "no-answer", reason: `malformed problem: ${wrong}` };
    if (problem.variables.length === 0) return answerOfNothing(problem);
    const highs = await loadedHighs();
    try {
      return highs.withModel((model) => solved(highs, model, { problem, limits }));
    } catch (error) {
      // The runtime ran out of memory or broke an assertion: it may be unusable, so the next call loads another one.
      loading = undefined;
      return { status: "no-answer", reason: `HiGHS: ${String(error)}` };
    }
  },
};

let loading: Promise<Highs> | undefined;

function loadedHighs(): Promise<Highs> {
  // Only when it is first asked: loading costs some 80 ms.
  // Its types describe the CommonJS form, in which the loader lies one level deeper than in the ES module that Node takes.
  loading ??= import("highs").then(({ default: load }) =>
    (load as unknown as typeof load.default)(),
  );
  return loading;
}

interface Question {
  readonly problem: MilpProblem;
  readonly limits: MilpLimits;
}

function solved(highs: Highs, model: Model, { problem, limits }: Question): MilpAnswer {
  model.passModel(modelData(highs, problem));
  model.options.set({
    output_flag: false,
    time_limit: Math.max(0, limits.timeLimitMs) / 1000,
    mip_rel_gap: limits.relativeGap ?? 0,
  });
  if (limits.start !== undefined && checkAnswer(problem, limits.start) === undefined)
    model.setSolution({ colValue: limits.start });
  let { modelStatus } = model.run();
  const states = highs.constants.modelStatus;
  if (modelStatus === states.unboundedOrInfeasible) {
    // Presolve cannot tell which; without it the simplex method can.
    model.options.set({ presolve: "off" });
    ({ modelStatus } = model.run());
  }
  if (modelStatus === states.infeasible)
    return { status: "infeasible", reason: `${problem.name}: no values satisfy all rows` };
  if (modelStatus === states.unbounded)
    return { status: "unbounded", reason: `${problem.name}: the objective has no limit` };
  if (Number(model.info.get("primal_solution_status")) !== highs.constants.solutionStatus.feasible)
    return {
      status: "no-answer",
      reason: `${problem.name}: no solution within ${limits.timeLimitMs} ms (HiGHS status ${modelStatus})`,
    };
  const isProven = modelStatus === states.optimal;
  const isMip = problem.variables.some(({ isInteger }) => isInteger);
  const bound = isMip ? Number(model.info.get("mip_dual_bound")) : NaN;
  const values = cleanValues(model, problem);
  const missed = checkAnswer(problem, values);
  if (missed !== undefined)
    return { status: "no-answer", reason: `HiGHS answered what does not hold: ${missed}` };
  const objective = objectiveOf(problem, values);
  const proven = isMip ? bound : isProven ? objective : NaN;
  return {
    status: isProven ? "optimal" : "feasible",
    values,
    objective,
    ...(Number.isFinite(proven) && {
      bound: proven,
      gap: Math.abs(objective - proven) / Math.max(Math.abs(objective), 1e-9),
    }),
  };
}

/** The solution with whole integers and continuous values that go with them. */
function cleanValues(model: Model, problem: MilpProblem): readonly number[] {
  const rounded = roundedValues(problem, [...model.getSolution().colValue]);
  if (checkAnswer(problem, rounded) === undefined) return clipped(problem, rounded);
  model.clearIntegrality();
  for (const [at, { isInteger }] of problem.variables.entries()) {
    const value = rounded[at] ?? 0;
    if (isInteger) model.changeColBounds(at, value, value);
  }
  model.run();
  return clipped(problem, roundedValues(problem, [...model.getSolution().colValue]));
}

/** Continuous values may lie outside their bounds by the solver's tolerance; callers take square roots of them. */
const clipped = (problem: MilpProblem, values: readonly number[]): readonly number[] =>
  values.map((value, at) => {
    const { lower = -Infinity, upper = Infinity } = problem.variables[at] ?? {};
    return Math.min(Math.max(value, lower), upper);
  });

function modelData(highs: Highs, problem: MilpProblem): ModelData {
  const starts = [0];
  const indices: number[] = [];
  const values: number[] = [];
  for (const { terms } of problem.rows) {
    for (const { variable, coefficient } of mergedTerms(terms)) {
      indices.push(variable);
      values.push(coefficient);
    }
    starts.push(indices.length);
  }
  const { continuous, integer } = highs.constants.variableType;
  const { minimize, maximize } = highs.constants.objectiveSense;
  return {
    numCols: problem.variables.length,
    numRows: problem.rows.length,
    sense: problem.sense === "minimise" ? minimize : maximize,
    colCost: problem.variables.map(({ cost }) => cost),
    colLower: problem.variables.map(({ lower }) => lower),
    colUpper: problem.variables.map(({ upper }) => upper),
    rowLower: problem.rows.map(({ lower }) => lower),
    rowUpper: problem.rows.map(({ upper }) => upper),
    matrix: {
      format: "csr",
      numRows: problem.rows.length,
      numCols: problem.variables.length,
      starts,
      indices,
      values,
    },
    integrality: problem.variables.map(({ isInteger }) => (isInteger ? integer : continuous)),
  };
}

function answerOfNothing(problem: MilpProblem): MilpAnswer {
  const missed = checkAnswer(problem, []);
  return missed === undefined
    ? { status: "optimal", values: [], objective: 0, bound: 0, gap: 0 }
    : { status: "infeasible", reason: missed };
}
