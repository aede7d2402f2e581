/** @file javascript-lp-solver behind the port: shifted and mirrored bounds, and answers that are checked. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { MilpProblem } from "../../lib/milp.ts";
import { javascriptLpSolver } from "../../solvers/javascript-lp.ts";

const LIMITS = { timeLimitMs: 5_000 };
const bound = fc.integer({ min: -9, max: 9 });

test("without rows every variable goes to the bound that its cost prefers", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(bound, bound, fc.integer({ min: 1, max: 5 }), fc.boolean()), {
        minLength: 1,
        maxLength: 5,
      }),
      fc.constantFrom("minimise" as const, "maximise" as const),
      async (drawn, sense) => {
        const problem: MilpProblem = {
          name: "box",
          sense,
          variables: drawn.map(([a, b, cost, isInteger], at) => ({
            name: `x${at}`,
            lower: Math.min(a, b),
            upper: Math.max(a, b),
            isInteger,
            cost: at % 2 === 0 ? cost : -cost,
          })),
          rows: [],
        };
        const answer = await javascriptLpSolver.solve(problem, LIMITS);
        const want = problem.variables.map(({ lower, upper, cost }) =>
          cost > 0 === (sense === "minimise") ? lower : upper,
        );
        if (!("values" in answer)) throw new Error(answer.status);
        for (const [at, value] of want.entries()) expect(answer.values[at]).toBeCloseTo(value, 9);
      },
    ),
    { numRuns: 50 },
  );
});

test("contradicting rows are infeasible, and a fractional relaxation is no answer", async () => {
  const variables = [{ name: "x", lower: 0, upper: 9, isInteger: true, cost: 1 }];
  const row = (lower: number, upper: number) => ({
    name: "row",
    terms: [{ variable: 0, coefficient: 2 }],
    lower,
    upper,
  });
  const solve = (rows: MilpProblem["rows"]) =>
    javascriptLpSolver.solve({ name: "p", sense: "minimise", variables, rows }, LIMITS);
  expect((await solve([row(4, 6), row(8, 10)])).status).toBe("infeasible");
  expect((await solve([row(3, 3)])).status).toBe("infeasible");
  expect(await solve([row(3, 5)])).toMatchObject({ status: "optimal", values: [2] });
});
