/** @file The moves of the search: each keeps a plan valid, each can be taken back, and together they reach every plan. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { allOn, type Decisions } from "../../../planning/inference/decisions.ts";
import { mover } from "../../../planning/inference/moves.ts";
import { listAt, type PlanningProblem } from "../../../planning/inference/problem.ts";
import { drawnProblem, tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

const runs = { numRuns: 30, seed: Number(process.env["ORBWEAVER_SEED"] ?? 1) };

/** The same problem with two operations that must run on one GPU. */
function paired(problem: PlanningProblem): PlanningProblem {
  const last = problem.operationCount - 1;
  const operations = problem.graph.operations.map((operation, at) =>
    at === 0 || at === last ? { ...operation, group: "pair" } : operation,
  );
  return tinyProblem({ ...problem.graph, operations }, problem.host);
}

const textOf = ({ order, gpu, landing }: Decisions): string => [order, gpu, landing].join(" ");

function isInputsFirst(problem: PlanningProblem, { order }: Decisions): boolean {
  const position = new Map([...order].map((operation, at) => [operation, at]));
  return [...order].every((operation) =>
    listAt(problem.inputs, operation).every(
      (input) => (position.get(input) ?? Infinity) < (position.get(operation) ?? -1),
    ),
  );
}

describe("a move", () => {
  it("keeps inputs before readers, groups on one GPU, and every place in range", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), (seed) => {
        const problem = paired(drawnProblem(seed));
        const decisions = allOn(problem, 0);
        const { move } = mover(problem, decisions);
        const random = randomFrom(seed, "moves");
        for (let turn = 0; turn < 60; turn += 1) move(random);
        expect(isInputsFirst(problem, decisions)).toBe(true);
        expect(new Set(decisions.order).size).toBe(problem.operationCount);
        expect(decisions.gpu[0]).toBe(decisions.gpu[problem.operationCount - 1]);
        for (const gpu of decisions.gpu) expect([0, 1]).toContain(gpu);
        for (const landing of decisions.landing) expect([-2, -1, 0, 1]).toContain(landing);
      }),
      runs,
    );
  });

  it("is taken back whole, and says whether it changed anything", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), (seed) => {
        const problem = drawnProblem(seed);
        const decisions = allOn(problem, 0);
        const { move, undo } = mover(problem, decisions);
        const random = randomFrom(seed, "moves");
        for (let turn = 0; turn < 60; turn += 1) {
          const before = textOf(decisions);
          expect(move(random)).toBe(textOf(decisions) !== before);
          if (turn % 3 === 0) continue;
          undo();
          expect(textOf(decisions)).toBe(before);
        }
      }),
      runs,
    );
  });
});

describe("moves together", () => {
  it("reach every placement, every landing and every order of a small model", () => {
    const graph = tinyGraph([{ kernelMs: 1, parameters: [0] }, { kernelMs: 2 }], [10]);
    const problem = tinyProblem(graph, tinyHost({ buses: [0, 1] }));
    const decisions = allOn(problem, 0);
    const { move } = mover(problem, decisions);
    const random = randomFrom(1, "moves");
    const seen = new Set<string>();
    for (let turn = 0; turn < 3000; turn += 1) {
      move(random);
      seen.add(textOf(decisions));
    }
    // 2 orders, 2 × 2 GPUs, 4 landings.
    expect(seen.size).toBe(32);
  });

  it("change all operations of a kind at once, and leave the others", () => {
    const layers = Array.from({ length: 20 }, (_, at) => ({
      kernelMs: at % 2 === 0 ? 1 : 2,
      inputs: at === 0 ? [] : [at - 1],
    }));
    const problem = tinyProblem(tinyGraph(layers), tinyHost({ buses: [0, 1] }));
    const decisions = allOn(problem, 0);
    const { move, undo } = mover(problem, decisions);
    const random = randomFrom(1, "moves");
    const odd = layers.map((_, at) => at % 2).join();
    let times = 0;
    for (let turn = 0; turn < 1000; turn += 1) {
      if (!move(random)) continue;
      if (decisions.gpu.join() === odd) times += 1;
      undo();
    }
    expect(times).toBeGreaterThan(5);
  });
});
