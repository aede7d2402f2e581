/** @file The lower bound by hand on small models, where no placement of any kind is below it. */

import { expect, it } from "vitest";
import { bounds } from "../../../planning/inference/bounds.ts";
import { allOn, IN_HOST, planOf, WITH_READER } from "../../../planning/inference/decisions.ts";
import { execute } from "../../../planning/inference/executor.ts";
import { planningProblem, type PlanningProblem } from "../../../planning/inference/problem.ts";
import { tinyGraph, tinyHost, tinyProblem, type TinyOperation } from "./problems.ts";

/** The latency of the fastest placement of operations and parameters. */
function fastestMs(problem: PlanningProblem): number {
  const landings = [IN_HOST, WITH_READER, ...Array(problem.gpuCount).keys()];
  const gpuWays = problem.gpuCount ** problem.operationCount;
  let best = Infinity;
  for (let draw = 0; draw < gpuWays * landings.length ** problem.parameterCount; draw += 1) {
    const decisions = allOn(problem, 0);
    let left = draw;
    for (let at = 0; at < problem.operationCount; at += 1) {
      decisions.gpu[at] = left % problem.gpuCount;
      left = Math.floor(left / problem.gpuCount);
    }
    for (let at = 0; at < problem.parameterCount; at += 1) {
      decisions.landing[at] = landings[left % landings.length] ?? WITH_READER;
      left = Math.floor(left / landings.length);
    }
    best = Math.min(best, execute(problem, planOf(problem, decisions)).latencyMs);
  }
  return best;
}

interface Row {
  readonly what: string;
  readonly operations: readonly TinyOperation[];
  readonly parameterMB?: readonly number[];
  readonly buses: readonly number[];
  readonly wantLowerMs: number;
  readonly wantCriticalMs: number;
  readonly wantFastestMs: number;
}

const chain = [
  { kernelMs: 1, parameters: [0] },
  { kernelMs: 2, inputs: [0] },
];

// A bus copies 10 MB a millisecond.
const rows: readonly Row[] = [
  {
    what: "a kernel is no faster than it is",
    operations: [{ kernelMs: 3 }],
    buses: [0, 1],
    wantLowerMs: 3,
    wantCriticalMs: 3,
    wantFastestMs: 3,
  },
  {
    what: "a kernel that reads its parameter from the host ends when the bytes have crossed",
    operations: [{ kernelMs: 1, parameters: [0] }],
    parameterMB: [20],
    buses: [0],
    wantLowerMs: 2,
    wantCriticalMs: 3,
    wantFastestMs: 2,
  },
  {
    what: "one parameter crosses one bus, and the rest of the chain follows it",
    operations: chain,
    parameterMB: [40],
    buses: [0, 1],
    wantLowerMs: 6,
    wantCriticalMs: 7,
    wantFastestMs: 6,
  },
  {
    what: "a table of which little is read crosses in part",
    operations: [{ kernelMs: 1, parameters: [0], touchedMB: 10 }, ...chain.slice(1)],
    parameterMB: [40],
    buses: [0],
    wantLowerMs: 3,
    wantCriticalMs: 7,
    wantFastestMs: 3,
  },
  {
    what: "independent kernels share the GPUs",
    operations: Array.from({ length: 4 }, () => ({ kernelMs: 3 })),
    buses: [0, 1],
    wantLowerMs: 6,
    wantCriticalMs: 3,
    wantFastestMs: 6,
  },
  {
    what: "the parameters of both inputs cross two buses together",
    operations: [
      { kernelMs: 1, parameters: [0] },
      { kernelMs: 1, parameters: [1] },
      { kernelMs: 1, inputs: [0, 1] },
    ],
    parameterMB: [20, 40],
    buses: [0, 1],
    wantLowerMs: 5,
    wantCriticalMs: 8,
    wantFastestMs: 5,
  },
];

it.each(rows)("$what", ({ operations, parameterMB, buses, ...want }) => {
  const problem = tinyProblem(tinyGraph(operations, parameterMB), tinyHost({ buses }));
  const { lowerMs, criticalPathMs } = bounds(problem);
  expect(lowerMs).toBeCloseTo(want.wantLowerMs, 9);
  expect(criticalPathMs).toBeCloseTo(want.wantCriticalMs, 9);
  expect(fastestMs(problem)).toBeCloseTo(want.wantFastestMs, 9);
});

it("a parameter that lies on a GPU already crosses no bus", () => {
  const options = { order: [0, 1], resident: [{ parameter: 0, gpu: 0 }] };
  const problem = planningProblem(tinyGraph(chain, [40]), tinyHost({ buses: [0] }), options);
  expect(bounds(problem).lowerMs).toBeCloseTo(3, 9);
  expect(fastestMs(problem)).toBeCloseTo(3, 9);
});

it("a GPU at half the pace adds half a GPU", () => {
  const graph = tinyGraph(Array.from({ length: 6 }, () => ({ kernelMs: 2 })));
  const problem = tinyProblem(graph, tinyHost({ buses: [0, 1], slowdown: [1, 2] }));
  expect(bounds(problem).lowerMs).toBeCloseTo(12 / 1.5, 9);
  expect(fastestMs(problem)).toBeCloseTo(8, 9);
});
