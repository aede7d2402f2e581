/** @file Dominators against their definition, and the cut into submodels. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dominators, ENTRY } from "../../../planning/inference/dominators.ts";
import { submodels } from "../../../planning/inference/submodels.ts";
import { listAt, type PlanningProblem } from "../../../planning/inference/problem.ts";
import { drawnProblem, tinyGraph, tinyHost, tinyProblem } from "./problems.ts";
import { caseCount } from "../../support/case-count.ts";

/** The graph of SortingHat's figure 6: A to G, with D on every way. */
const figure6 = (): PlanningProblem => {
  const reads = [[], [0], [0], [1, 2], [3], [3], [4, 5]];
  const operations = reads.map((inputs) => ({ inputs, kernelMs: 1 }));
  return tinyProblem(tinyGraph(operations), tinyHost({ buses: [0] }));
};

/** By the definition: a dominates b when b cannot be reached without a. */
function dominates(problem: PlanningProblem, a: number, b: number): boolean {
  const reached = new Set<number>();
  for (let each = 0; each < problem.operationCount; each += 1) {
    const inputs = [...listAt(problem.inputs, each)];
    if (each !== a && (inputs.length === 0 || inputs.some((input) => reached.has(input))))
      reached.add(each);
  }
  return !reached.has(b);
}

describe("dominators", () => {
  it("are A, D and G for the output of the paper's figure 6", () => {
    expect(dominators(figure6()).chain).toEqual([0, 3, 6]);
  });

  it("agree with their definition on drawn graphs", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), (seed) => {
        const problem = drawnProblem(seed);
        const { immediate } = dominators(problem);
        for (let each = 0; each < problem.operationCount; each += 1) {
          const above = new Set<number>();
          for (let at = each; at !== ENTRY; at = immediate[at] ?? ENTRY) above.add(at);
          for (let other = 0; other < problem.operationCount; other += 1)
            expect(above.has(other)).toBe(dominates(problem, other, each));
        }
      }),
      { numRuns: caseCount(60), seed: Number(process.env["ORBWEAVER_SEED"] ?? 1) },
    );
  });

  it("are found on a chain of 200,000 operations", () => {
    const count = 200_000;
    const start = Int32Array.from({ length: count + 1 }, (_, at) => Math.max(0, at - 1));
    const items = Int32Array.from({ length: count - 1 }, (_, at) => at);
    const ends = Int32Array.from({ length: count + 1 }, (_, at) => Math.min(at, count - 1));
    const next = Int32Array.from({ length: count - 1 }, (_, at) => at + 1);
    const { chain } = dominators({
      operationCount: count,
      inputs: { start, items },
      readers: { start: ends, items: next },
    });
    expect(chain.length).toBe(count);
  });
});

describe("submodels", () => {
  it("end at D in the paper's figure 6, and the second one has D as its placeholder", () => {
    const [first, second, third] = submodels(figure6());
    expect(first).toEqual({ operations: [0], placeholders: [] });
    expect(second).toEqual({ operations: [1, 2, 3], placeholders: [0] });
    expect(third).toEqual({ operations: [4, 5, 6], placeholders: [3] });
    expect(submodels(figure6(), 2)[0]).toEqual({ operations: [0, 1, 2, 3], placeholders: [] });
  });

  it("integrate models that no edge joins: the first ones of all, the second ones, and so on", () => {
    const chain = (count: number, from: number) =>
      Array.from({ length: count }, (_, at) => ({
        kernelMs: 1,
        inputs: at === 0 ? [] : [from + at - 1],
      }));
    const graph = tinyGraph([...chain(3, 0), ...chain(2, 3)]);
    const parts = submodels(tinyProblem(graph, tinyHost({ buses: [0] })));
    expect(parts).toEqual([
      { operations: [0, 3], placeholders: [] },
      { operations: [1, 4], placeholders: [0, 3] },
      { operations: [2], placeholders: [1] },
    ]);
  });

  it("hold every operation once, and read only from earlier ones", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100_000 }),
        fc.integer({ min: 1, max: 3 }),
        (seed, nDom) => {
          const problem = drawnProblem(seed);
          const parts = submodels(problem, nDom);
          const seen = new Set<number>();
          for (const { operations, placeholders } of parts) {
            for (const each of placeholders) expect(seen.has(each)).toBe(true);
            for (const each of operations) {
              expect(seen.has(each)).toBe(false);
              seen.add(each);
            }
          }
          expect(seen.size).toBe(problem.operationCount);
        },
      ),
      { numRuns: caseCount(60), seed: Number(process.env["ORBWEAVER_SEED"] ?? 1) },
    );
  });
});
