/** @file The planner's estimate where a bus is shared, beside the executor's answer and beside sums by hand. */

import { expect, it } from "vitest";
import { allOn, IN_HOST, planOf } from "../../../planning/inference/decisions.ts";
import { estimator } from "../../../planning/inference/estimate.ts";
import { execute } from "../../../planning/inference/executor.ts";
import { tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

/** Two operations that wait for nothing: parameters of 10 and 20 MB over a bus of 10 GB/s. */
const pair = tinyGraph(
  [
    { kernelMs: 0.1, parameters: [0] },
    { kernelMs: 1, parameters: [1] },
  ],
  [10, 20],
);

const CASES = [
  { name: "a read that nothing else disturbs", buses: [0], inHost: [0, 1], wantMs: 3 },
  { name: "a read beside a copy", buses: [0, 0], inHost: [0], wantMs: 4 },
  { name: "a large read beside a copy that is reckoned before it", buses: [0, 0], inHost: [1] },
  { name: "reads over buses of their own", buses: [0, 1], inHost: [0, 1], wantMs: 2 },
] as const;

it.each(CASES)("$name takes what it takes in the executor", ({ buses, inHost, ...want }) => {
  const problem = tinyProblem(pair, tinyHost({ buses }));
  const decisions = allOn(problem, 0);
  if (buses.length > 1) decisions.gpu[1] = 1;
  for (const parameter of inHost) decisions.landing[parameter] = IN_HOST;
  const { latencyMs } = execute(problem, planOf(problem, decisions));
  expect(estimator(problem).latencyMs(decisions)).toBeCloseTo(latencyMs, 9);
  if ("wantMs" in want) expect(latencyMs).toBeCloseTo(want.wantMs, 9);
});

it.each(["pcie", "staged"] as const)(
  "copies between GPUs (%s) share the bus they arrive on",
  (kind) => {
    // 20 MB of a result go to the other GPU while its bus copies 100 MB.
    const graph = tinyGraph(
      [
        { kernelMs: 1, outputMB: 20 },
        { kernelMs: 1, inputs: [0], outputMB: 0 },
        { kernelMs: 1, inputs: [1], parameters: [0] },
      ],
      [100],
    );
    const peer = kind === "pcie" ? { kind, peerGBs: 8 } : { kind };
    const problem = tinyProblem(graph, tinyHost({ buses: [0, 1], peer }));
    const decisions = allOn(problem, 1);
    decisions.gpu[0] = 0;
    const { latencyMs } = execute(problem, planOf(problem, decisions));
    const got = estimator(problem).latencyMs(decisions);
    expect(Math.abs(got / latencyMs - 1)).toBeLessThan(0.01);
  },
);

it.each(["pcie", "staged"] as const)(
  "copies between GPUs (%s) share the wire that they leave by",
  (kind) => {
    // One result goes to two GPUs behind buses of their own at the same time.
    const graph = tinyGraph([
      { kernelMs: 1, outputMB: 40 },
      { kernelMs: 1, inputs: [0] },
      { kernelMs: 1, inputs: [0] },
    ]);
    const peer = kind === "pcie" ? { kind, peerGBs: 8 } : { kind };
    const problem = tinyProblem(graph, tinyHost({ buses: [0, 1, 2], peer }));
    const decisions = allOn(problem, 0);
    decisions.gpu.set([0, 1, 2]);
    const { latencyMs } = execute(problem, planOf(problem, decisions));
    const alone = 2 + (kind === "pcie" ? 5 : 8);
    expect(latencyMs).toBeGreaterThan(alone);
    const got = estimator(problem).latencyMs(decisions);
    expect(got).toBeCloseTo(latencyMs, 9);
  },
);
