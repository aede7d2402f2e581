/** @file The rows of the MILP accept exactly the schedules that can run, and each equation refuses its own violation. */

import { describe, expect, it } from "vitest";
import { checkAnswer } from "../../../lib/milp.ts";
import { submodelMilp, type SubmodelMilp } from "../../../planning/inference/milp.ts";
import { slotValues } from "../../../planning/inference/slot-values.ts";
import { diamond, emptyState, grouped, whole } from "./milp-problems.ts";
import { tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

const tuples = (count: number, choices: readonly number[]): number[][] =>
  count === 0
    ? [[]]
    : tuples(count - 1, choices).flatMap((head) => choices.map((each) => [...head, each]));

/**
 * A chain of three operations of which the second reads a parameter, in two slots on each of two GPUs. Such a schedule runs when the
 * parameter is in host memory exactly if its reader reads it there, no path leaves a slot and comes back, and no slot of a GPU reads from
 * a later one, directly or by way of the other GPU.
 */
function canRun([parameter = 0, ...on]: readonly number[]): boolean {
  const [first = 0, second = 0, third = 0] = on;
  if ((parameter === 0) !== (second % 2 === 1)) return false;
  if (parameter === third && parameter !== second) return false;
  const waits = new Set(["2 1", "4 3"]);
  for (const [from, to] of [
    [first, second],
    [second, third],
  ] as const)
    if (from !== to) waits.add(`${to} ${from}`);
  for (const [middle, a, b] of tuples(3, [1, 2, 3, 4]))
    if (waits.has(`${a} ${middle}`) && waits.has(`${middle} ${b}`)) waits.add(`${a} ${b}`);
  return [1, 2, 3, 4].every((slot) => !waits.has(`${slot} ${slot}`));
}

it("accept every schedule that can run and no other", () => {
  const problem = tinyProblem(
    tinyGraph(
      [
        { kernelMs: 1, outputMB: 2 },
        { kernelMs: 2, inputs: [0], parameters: [0], outputMB: 2 },
        { kernelMs: 1, inputs: [1] },
      ],
      [20],
    ),
    tinyHost({ buses: [0, 0] }),
  );
  const chain = { operations: [0, 1, 2], placeholders: [] };
  // Far enough for the rows alone to refuse.
  const made = submodelMilp(problem, chain, { state: emptyState, q: 2, horizonMs: 1000 });
  const isAccepted = (slotOf: readonly number[]): boolean =>
    checkAnswer(made.milp, slotValues(made, slotOf)) === undefined;
  const all = tuples(4, [0, 1, 2, 3, 4]);
  const placed = all.filter(([, ...on]) => !on.includes(0));
  const accepted = placed.filter(isAccepted);
  expect(accepted).toEqual(placed.filter(canRun));
  expect(accepted.length).toBeGreaterThan(40);
  // An operation in host memory runs nowhere.
  expect(
    all
      .filter(([, ...on]) => on.includes(0))
      .slice(0, 20)
      .filter(isAccepted),
  ).toEqual([]);
});

/** The second branch of the diamond with its parameter on the other GPU. */
const SPREAD = [2, 4, 2, 2, 4, 4];

/** Which row is broken first when one variable is changed. */
function brokenBy({ milp }: SubmodelMilp, values: readonly number[], [name, by]: [string, number]) {
  const changed = milp.variables.map((variable, at) =>
    variable.name === name ? (values[at] ?? 0) + by : (values[at] ?? 0),
  );
  expect(changed).not.toEqual(values);
  return checkAnswer(milp, changed);
}

describe("an answer", () => {
  const made = submodelMilp(diamond, whole, { state: emptyState, q: 2 });
  const values = slotValues(made, SPREAD);

  it("holds as it is", () => {
    expect(checkAnswer(made.milp, values)).toBeUndefined();
  });

  // Nodes: two parameters, then the four operations; slots 1 and 2 are on one GPU, 3 and 4 on the other.
  it.each<{ what: string; change: [string, number]; want: string }>([
    { what: "a node in no slot", change: ["x 2 2", -1], want: "(2) 2" },
    { what: "a slot unreachable from its node", change: ["z 5 4", -1], want: "(6) 5 4" },
    { what: "a slot unreachable from an input", change: ["z 4 4", -1], want: "(7) 4 5 4" },
    {
      what: "an edge into a slot that is not counted",
      change: ["EdgeIn 2 4", -1],
      want: "(9) 2 4 4",
    },
    { what: "a result that is not copied", change: ["CopyIn 2 0 4", -1], want: "(10) 2 0 4" },
    { what: "a copy before the bus is free", change: ["DTStart 3", 1], want: "(12) 3" },
    { what: "a copy before the one in front", change: ["DTStart 4", 1], want: "(13) 4" },
    { what: "a copy that takes no time", change: ["DTFin 4", -1], want: "(14) 4" },
    { what: "a result before its slot ends", change: ["NodeFin 2", -0.5], want: "(15) 2 2" },
    { what: "a parameter before its copy ends", change: ["NodeFin 1", -0.5], want: "(16) 1 4" },
    { what: "a slot before its inputs", change: ["SGStart 4", -0.5], want: "(19) 2 4" },
    { what: "a slot that takes no time", change: ["SGFin 2", -0.5], want: "(21) 2" },
    { what: "a total before the last slot", change: ["TotalLatency", -0.5], want: "(23) 4" },
  ])("is refused by its row for $what", ({ change, want }) => {
    expect(brokenBy(made, values, change)).toContain(want);
  });

  it("is refused when a slot begins before the copy of its own parameter, or that before its bus is free", () => {
    const late = submodelMilp(diamond, whole, {
      state: { ...emptyState, busFinMs: [0, 5] },
      q: 2,
    });
    const own = slotValues(late, SPREAD);
    expect(checkAnswer(late.milp, own)).toBeUndefined();
    expect(brokenBy(late, own, ["SGStart 4", -0.5])).toContain("(20) 1 4 4");
    expect(brokenBy(late, own, ["DTStart 3", -0.5])).toContain("(12) 3");
  });
});

it("memory is what was held, what is placed and what is copied there", () => {
  // The first GPU has 20 MB and results of 2 and 2 MB; the second 30, 2, 1 and two results copied to it.
  const roomMB = [24, 30 + 2 + 1 + 2 + 2];
  const check = (shortBy: number): readonly string[] =>
    [0, 1].map((gpu) => {
      const heldBytes = roomMB.map(
        (mb, at) => 16 * 2 ** 30 - (mb - (at === gpu ? shortBy : 0)) * 1e6,
      );
      const made = submodelMilp(diamond, whole, { state: { ...emptyState, heldBytes }, q: 2 });
      return checkAnswer(made.milp, slotValues(made, SPREAD)) ?? "fits";
    });
  expect(check(0)).toEqual(["fits", "fits"]);
  expect(check(0.1)).toEqual([
    expect.stringContaining("(11) 0"),
    expect.stringContaining("(11) 1"),
  ]);
});

it("a fixed node lies in the first slot of its GPU, and a group on one GPU", () => {
  const fixed = submodelMilp(diamond, whole, {
    state: { ...emptyState, parameterOn: new Map([[1, 1]]) },
    q: 2,
  });
  expect(checkAnswer(fixed.milp, slotValues(fixed, [2, 3, 2, 2, 4, 4]))).toBeUndefined();
  expect(checkAnswer(fixed.milp, slotValues(fixed, SPREAD))).toContain("(3) 1");
  const twins = submodelMilp(grouped(diamond, [1, 2]), whole, { state: emptyState, q: 2 });
  expect(checkAnswer(twins.milp, slotValues(twins, SPREAD))).toContain("(group) 4");
  expect(checkAnswer(twins.milp, slotValues(twins, [2, 2, 2, 2, 2, 4]))).toBeUndefined();
});
