/** @file §6: several models at once, slices of a GPU, keys and values of a prompt phase; and layers with measured times. */

import { expect, it } from "vitest";
import { parseInferenceHost } from "../../../domain/inference-host.ts";
import { checkOperatorGraph, type OperatorGraph } from "../../../domain/operator-graph.ts";
import { layerMs, parseLayerTimes } from "../../../domain/parse-layer-times.ts";
import { joinedGraph } from "../../../scheduling/inference/joined-graph.ts";
import { measuredLlama } from "../../../scheduling/inference/measured-llama.ts";
import { planningProblem, type PlanningProblem } from "../../../scheduling/inference/problem.ts";
import { seriesMs } from "../../../scheduling/inference/rivals.ts";
import { searchPlan } from "../../../scheduling/inference/search.ts";
import { tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

const TABLE = [
  "layer_name,input,kv_cache,tp_size,latency(ns)",
  "q_proj,4,0,1,400000",
  "q_proj,2,0,1,100000",
  "q_proj,2,512,1,7000000",
  "attn,1,0,1,50000",
].join("\n");

function found(problem: PlanningProblem, estimates = 500) {
  const answer = searchPlan(problem, { estimates });
  if (answer.kind === "planned") return answer;
  throw new Error(answer.message);
}

const orderOf = (graph: OperatorGraph): readonly number[] => {
  const checked = checkOperatorGraph(graph, graph.name);
  return checked.kind === "checked" ? checked.order : [];
};

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

it("reads keys and values of a prompt phase as parameters, free where they lie already", () => {
  const graph = measuredLlama({ batch: 1, sequence: 1, past: 512 }, []);
  const caches = graph.parameters.flatMap(({ id, bytes }, parameter) =>
    /cache$/.test(id) ? [{ parameter, bytes }] : [],
  );
  // 32 layers, keys and values, 512 tokens of 1,024 BF16 numbers.
  expect(caches.map(({ bytes }) => bytes)).toEqual(Array(64).fill(512 * 1024 * 2));
  const host = tinyHost({ buses: [0, 1], memoryGiB: 40 });
  const order = orderOf(graph);
  const cold = planningProblem(graph, host, { order });
  const resident = caches.map(({ parameter }) => ({ parameter, gpu: 0 }));
  const warm = planningProblem(graph, host, { order, resident });
  const bytes = caches.reduce((sum, each) => sum + each.bytes, 0);
  expect(seriesMs(cold, 0) - seriesMs(warm, 0)).toBeCloseTo(bytes / 10e6, 6);
  const copied = found(warm, 60).plan.busQueues.flat();
  const onHome = copied.filter(
    ({ parameter, gpu }) => gpu === 0 && resident.some((each) => each.parameter === parameter),
  );
  expect(onHome).toEqual([]);
});

it("has the parameters of Llama-3.1-8B, and measured times where there are some", () => {
  const parsed = parseLayerTimes(TABLE, "layers.csv");
  if (parsed.kind === "refused") throw new Error("the table is refused");
  const tables = [{ device: "H100", layers: parsed.layers }];
  const graph = measuredLlama({ batch: 3, sequence: 1 }, tables);
  const elements = graph.parameters.reduce((sum, { bytes }) => sum + bytes / 2, 0);
  expect(elements / 1e9).toBeCloseTo(8.03, 2);
  expect(orderOf(graph)).toHaveLength(32 * 12 + 3);
  const timesOf = (kind: string) => graph.operations.find((each) => each.kind === kind)?.measured;
  // Three tokens lie between two and four; three sequences are attended to one after the other.
  expect(timesOf("q_proj")?.[0]?.kernelMs).toBeCloseTo(0.25, 9);
  expect(timesOf("attn")?.[0]?.kernelMs).toBeCloseTo(0.15, 9);
  expect(timesOf("o_proj")).toBeUndefined();
  const long = measuredLlama({ batch: 1, sequence: 5 }, tables);
  expect(long.operations.some(({ measured }) => measured !== undefined)).toBe(false);
});

it.each([
  { row: "q_proj,0,0,1,5", wantLine: 2 },
  { row: "q_proj,1,0,1,0", wantLine: 2 },
  { row: "q_proj,1,0,1", wantLine: 2 },
  { row: "q_proj,1,512,1,5", wantLine: 1 },
])("refuses a table of layers whose only row is $row", ({ row, wantLine }) => {
  const parsed = parseLayerTimes(`${TABLE.split("\n")[0]}\n${row}\n`, "layers.csv");
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
