/** @file §6: several models at once, slices of a GPU; and tables of measured times. */

import { expect, it } from "vitest";
import { parseInferenceHost } from "../../../domain/model/inference-host.ts";
import { layerMs, parseLayerTimes } from "../../../domain/model/parse-layer-times.ts";
import { joinedGraph } from "../../../planning/inference/joined-graph.ts";
import { planningProblem, type PlanningProblem } from "../../../planning/inference/problem.ts";
import { searchPlan } from "../../../planning/inference/search.ts";
import { tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

const HEADER = "layer_name,input,kv_cache,tp_size,latency(ns)";

function found(problem: PlanningProblem, estimates = 500) {
  const answer = searchPlan(problem, { estimates });
  if (answer.kind === "planned") return answer;
  throw new Error(answer.message);
}

it("plans two models together in little more than one of them takes alone", () => {
  const one = tinyGraph(
    [
      { kernelMs: 3, parameters: [0] },
      { kernelMs: 1, inputs: [0] },
    ],
    [10],
  );
  const host = tinyHost({ buses: [0, 1] });
  const both = joinedGraph([one, { ...one, name: "other" }]);
  expect(both.name).toBe("tiny and other");
  expect(both.operations.map(({ id, inputs, parameters }) => [id, inputs, parameters])).toEqual([
    ["1:o0", [], [0]],
    ["1:o1", [0], []],
    ["2:o0", [], [1]],
    ["2:o1", [2], []],
  ]);
  const alone = found(tinyProblem(one, host)).expectedMs;
  expect(found(tinyProblem(both, host)).expectedMs).toBeLessThan(1.1 * alone);
  expect(joinedGraph([one])).toBe(one);
});

it("plans over slices of a GPU: each has its own device, both come behind one bus", () => {
  const text = `
name: sliced
buses: [{ name: a, busGBs: 20 }]
gpus:
  - { name: slice1, device: small, bus: a }
  - { name: slice2, device: large, bus: a }
devices:
  small: { peakTflops: 10, memoryGBs: 200, memoryGiB: 1 }
  large: { peakTflops: 20, memoryGBs: 400, memoryGiB: 4 }
`;
  const parsed = parseInferenceHost(text, { file: "host.yaml" });
  if (parsed.kind === "refused") throw new Error("the host is refused");
  const gigabyte = 1e9;
  const operation = { kind: "MatMul", outputBytes: 1e6, flops: 1e10, movedBytes: gigabyte };
  const graph = {
    name: "two layers, each read twice, so that reading them from host memory is no way out",
    parameters: [0, 1].map((at) => ({ id: `w${at}`, bytes: 1.5 * gigabyte })),
    operations: [0, 1, 2, 3].map((at) => ({
      ...operation,
      id: `o${at}`,
      inputs: at === 0 ? [] : [at - 1],
      parameters: [at % 2],
    })),
  };
  const problem = planningProblem(graph, parsed.host, { order: [0, 1, 2, 3] });
  expect(problem.kernelMs[0]).toBeGreaterThan(1.5 * (problem.kernelMs[1] ?? 0));
  const { plan, stats } = found(problem);
  // The small slice cannot hold either layer.
  expect(plan.busQueues.flat().map(({ gpu }) => gpu)).toEqual([1, 1]);
  expect(stats.memoryShare).toBeLessThanOrEqual(1);
});

it.each([
  { row: "q_proj,0,0,1,5", wantLine: 2 },
  { row: "q_proj,1,0,1,0", wantLine: 2 },
  { row: "q_proj,1,0,1", wantLine: 2 },
  { row: "q_proj,1,512,1,5", wantLine: 1 },
])("refuses a table of layers whose only row is $row", ({ row, wantLine }) => {
  const parsed = parseLayerTimes(`${HEADER}\n${row}\n`, "layers.csv");
  expect(parsed.kind === "refused" && parsed.problems.map(({ line }) => line)).toEqual([wantLine]);
});

it("knows times between and below what was measured, none above", () => {
  const times = [
    [2, 1],
    [4, 2],
  ] as const;
  expect([1, 2, 3, 4, 5].map((tokens) => layerMs(times, tokens))).toEqual([
    1,
    1,
    1.5,
    2,
    undefined,
  ]);
});
