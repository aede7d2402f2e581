/**
 * @file Chooses the solver of a problem: javascript-lp-solver while it is small, HiGHS beyond that and wherever the first finds no answer.
 *
 * The border is where the time of the first begins to grow: 50 binaries cost it 40 ms and 200 cost it 17 s, where HiGHS needs 23 ms and about
 * a second; below the border the 80 ms of loading HiGHS decide.
 */

import type { MilpProblem, MilpSolver } from "../lib/milp.ts";
import { highsSolver } from "./highs.ts";
import { javascriptLpSolver } from "./javascript-lp.ts";

const SMALL = Object.freeze({ integers: 24, variables: 80, rows: 80 });

export function solverFor(problem: MilpProblem): MilpSolver {
  const integers = problem.variables.filter(({ isInteger }) => isInteger).length;
  const isSmall =
    integers <= SMALL.integers &&
    problem.variables.length <= SMALL.variables &&
    problem.rows.length <= SMALL.rows;
  return isSmall ? smallSolver : highsSolver;
}

const smallSolver: MilpSolver = {
  name: javascriptLpSolver.name,
  async solve(problem, limits) {
    const startedMs = performance.now();
    const answer = await javascriptLpSolver.solve(problem, limits);
    if (answer.status !== "no-answer") return answer;
    const timeLimitMs = limits.timeLimitMs - (performance.now() - startedMs);
    return timeLimitMs > 0 ? highsSolver.solve(problem, { ...limits, timeLimitMs }) : answer;
  },
};

export { highsSolver, javascriptLpSolver };
