import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checkAnswer,
  objectiveOf,
  type MilpAnswer,
  type MilpProblem,
  type MilpSolver,
} from "../../lib/milp.ts";
import { highsSolver, javascriptLpSolver, solverFor } from "../../solvers/index.ts";

const LIMITS = { timeLimitMs: 20_000 };
const SOLVERS: readonly MilpSolver[] = [highsSolver, javascriptLpSolver];

const variable = (name: string, of: Partial<MilpProblem["variables"][number]> = {}) => ({
  name,
  lower: 0,
  upper: Infinity,
  isInteger: false,
  cost: 1,
  ...of,
});

const knapsack = (
  gains: readonly number[],
  weights: readonly number[],
  room: number,
): MilpProblem => ({
  name: "knapsack",
  sense: "maximise",
  variables: gains.map((cost, at) => variable(`take${at}`, { upper: 1, isInteger: true, cost })),
  rows: [
    {
      name: "room",
      terms: weights.map((coefficient, at) => ({ variable: at, coefficient })),
      lower: -Infinity,
      upper: room,
    },
  ],
});

const objective = (answer: MilpAnswer): number => ("objective" in answer ? answer.objective : NaN);

describe.each(SOLVERS)("$name", (solver) => {
  test("finds the best load of a knapsack and proves it", async () => {
    const answer = await solver.solve(knapsack([6, 10, 12], [1, 2, 3], 5), LIMITS);
    expect(answer).toMatchObject({ status: "optimal", values: [0, 1, 1], objective: 22 });
  });

  test("knows lower bounds, upper bounds alone, and variables without bounds", async () => {
    const problem: MilpProblem = {
      name: "bounds",
      sense: "minimise",
      variables: [
        variable("from-3", { lower: -3, upper: 8, cost: 2 }),
        variable("up-to-4", { lower: -Infinity, upper: 4.5, isInteger: true, cost: -1 }),
        variable("free", { lower: -Infinity, cost: 1 }),
      ],
      rows: [
        {
          name: "sum",
          terms: [0, 1, 2].map((at) => ({ variable: at, coefficient: 1 })),
          lower: -10,
          upper: Infinity,
        },
        {
          name: "twice",
          terms: [1, 1].map((at) => ({ variable: at, coefficient: 1 })),
          lower: -6,
          upper: 8,
        },
      ],
    };
    const answer = await solver.solve(problem, LIMITS);
    expect(answer).toMatchObject({ status: "optimal", values: [-3, 4, -11] });
    expect(objective(answer)).toBeCloseTo(-21, 6);
  });

  test("says that nothing satisfies contradicting rows", async () => {
    const problem = knapsack([1, 1], [1, 1], -1);
    expect(await solver.solve(problem, LIMITS)).toMatchObject({ status: "infeasible" });
  });

  test("says that an objective has no limit", async () => {
    const problem: MilpProblem = {
      name: "no limit",
      sense: "maximise",
      variables: [variable("x")],
      rows: [
        { name: "least", terms: [{ variable: 0, coefficient: 1 }], lower: 1, upper: Infinity },
      ],
    };
    expect(await solver.solve(problem, LIMITS)).toMatchObject({ status: "unbounded" });
  });

  test("refuses a problem with a number that is none", async () => {
    const answer = await solver.solve(knapsack([NaN], [1], 1), LIMITS);
    expect(answer).toMatchObject({ status: "no-answer" });
  });
});

test("HiGHS begins with a start that holds and ignores one that does not", async () => {
  const problem = knapsack([6, 10, 12], [1, 2, 3], 5);
  for (const start of [
    [1, 1, 0],
    [1, 1, 1],
    [0.5, 0, 0],
  ])
    expect(objective(await highsSolver.solve(problem, { ...LIMITS, start }))).toBe(22);
});

test("a problem beyond the border goes to HiGHS, a small one does not", () => {
  const many = Array.from({ length: 60 }, (_, at) => at + 1);
  expect(solverFor(knapsack([1, 2], [1, 1], 1)).name).toBe("javascript-lp-solver");
  expect(solverFor(knapsack(many, many, 100)).name).toBe("HiGHS");
});

test("checkAnswer names what is missed", () => {
  const problem = knapsack([6, 10], [1, 2], 2);
  expect(checkAnswer(problem, [0, 1])).toBeUndefined();
  expect(checkAnswer(problem, [1, 1])).toContain("room is 3");
  expect(checkAnswer(problem, [0.5, 0])).toContain("not whole");
  expect(checkAnswer(problem, [2, 0])).toContain("take0 is 2");
  expect(checkAnswer(problem, [1])).toContain("1 values for 2");
});

const anyProblem = fc
  .record({
    sense: fc.constantFrom("minimise" as const, "maximise" as const),
    costs: fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 1, maxLength: 5 }),
    rows: fc.array(
      fc.record({
        coefficients: fc.array(fc.integer({ min: -5, max: 5 }), { minLength: 5, maxLength: 5 }),
        lower: fc.integer({ min: -12, max: 6 }),
        room: fc.integer({ min: 0, max: 12 }),
      }),
      { maxLength: 4 },
    ),
    lowers: fc.array(fc.integer({ min: -2, max: 1 }), { minLength: 5, maxLength: 5 }),
    spans: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 5, maxLength: 5 }),
  })
  .map(({ sense, costs, rows, lowers, spans }): MilpProblem => ({
    name: "any",
    sense,
    variables: costs.map((cost, at) => ({
      name: `x${at}`,
      lower: lowers[at] ?? 0,
      upper: (lowers[at] ?? 0) + (spans[at] ?? 0),
      isInteger: true,
      cost,
    })),
    rows: rows.map(({ coefficients, lower, room }, at) => ({
      name: `row${at}`,
      terms: costs.map((_, column) => ({
        variable: column,
        coefficient: coefficients[column] ?? 0,
      })),
      lower,
      upper: lower + room,
    })),
  }));

/** Every whole point of the box. */
function bestByTrying(problem: MilpProblem): number | undefined {
  let best: number | undefined;
  const tried: number[] = [];
  const tryFrom = (at: number): void => {
    const next = problem.variables[at];
    if (next === undefined) {
      if (checkAnswer(problem, tried) !== undefined) return;
      const found = objectiveOf(problem, tried);
      const isBetter =
        problem.sense === "minimise" ? found < (best ?? Infinity) : found > (best ?? -Infinity);
      if (isBetter) best = found;
      return;
    }
    for (let value = next.lower; value <= next.upper; value += 1) {
      tried[at] = value;
      tryFrom(at + 1);
    }
    tried.length = at;
  };
  tryFrom(0);
  return best;
}

test("both solvers agree with trying every point, and what they return holds", async () => {
  await fc.assert(
    fc.asyncProperty(anyProblem, async (problem) => {
      const best = bestByTrying(problem);
      for (const solver of SOLVERS) {
        const answer = await solver.solve(problem, LIMITS);
        if (best === undefined) expect(answer.status, solver.name).toBe("infeasible");
        else {
          expect(answer.status, solver.name).toBe("optimal");
          expect(objective(answer), solver.name).toBeCloseTo(best, 6);
          if ("values" in answer) expect(checkAnswer(problem, answer.values)).toBeUndefined();
        }
      }
    }),
    { numRuns: 150 },
  );
});
