/** @file HiGHS behind the port: its own gap, its start, and integers that are whole. */
import { expect, test } from "vitest";
import { checkAnswer, type MilpProblem } from "../../lib/milp.ts";
import { highsSolver } from "../../solvers/highs.ts";

const LIMITS = { timeLimitMs: 20_000 };

/** Choose items of value `gains[i]` whose weights fit. */
const knapsack = (
  gains: readonly number[],
  weights: readonly number[],
  room: number,
): MilpProblem => ({
  name: "knapsack",
  sense: "maximise",
  variables: gains.map((cost, at) => ({
    name: `take${at}`,
    lower: 0,
    upper: 1,
    isInteger: true,
    cost,
  })),
  rows: [
    {
      name: "room",
      terms: weights.map((coefficient, at) => ({ variable: at, coefficient })),
      lower: -Infinity,
      upper: room,
    },
  ],
});

/** By dynamic programming over whole weights. */
function bestLoad(gains: readonly number[], weights: readonly number[], room: number): number {
  const best = new Float64Array(room + 1);
  for (const [at, gain] of gains.entries())
    for (let held = room; held >= (weights[at] ?? 0); held -= 1)
      best[held] = Math.max(best[held] ?? 0, (best[held - (weights[at] ?? 0)] ?? 0) + gain);
  return best[room] ?? 0;
}

test("a knapsack of forty items is solved to the optimum, with whole values", async () => {
  const gains = Array.from({ length: 40 }, (_, at) => 10 + ((at * 37) % 53));
  const weights = Array.from({ length: 40 }, (_, at) => 5 + ((at * 29) % 31));
  const problem = knapsack(gains, weights, 200);
  const answer = await highsSolver.solve(problem, LIMITS);
  expect(answer.status).toBe("optimal");
  if (!("values" in answer)) return;
  expect(answer.objective).toBe(bestLoad(gains, weights, 200));
  expect(checkAnswer(problem, answer.values)).toBeUndefined();
  for (const value of answer.values) expect(Number.isInteger(value)).toBe(true);
});

test("a large coefficient times a small rounding error misses no row", async () => {
  const problem: MilpProblem = {
    name: "big M",
    sense: "minimise",
    variables: [
      { name: "isOpen", lower: 0, upper: 1, isInteger: true, cost: 1 },
      { name: "flow", lower: 0, upper: 1e6, isInteger: false, cost: -1e-3 },
    ],
    rows: [
      {
        name: "open first",
        terms: [
          { variable: 1, coefficient: 1 },
          { variable: 0, coefficient: -1e6 },
        ],
        lower: -Infinity,
        upper: 0,
      },
    ],
  };
  const answer = await highsSolver.solve(problem, LIMITS);
  if (!("values" in answer)) throw new Error(answer.status);
  expect(answer.values).toEqual([1, 1e6]);
  expect(checkAnswer(problem, answer.values)).toBeUndefined();
});
