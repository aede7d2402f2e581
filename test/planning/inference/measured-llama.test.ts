/** @file Llama-3.1-8B with measured layers: its parameters, the times that the tables have, and keys and values of a prompt phase. */

import { expect, it } from "vitest";
import { checkOperatorGraph, type OperatorGraph } from "../../../domain/model/operator-graph.ts";
import { parseLayerTimes } from "../../../domain/model/parse-layer-times.ts";
import { measuredLlama } from "../../../planning/inference/measured-llama.ts";
import { planningProblem } from "../../../planning/inference/problem.ts";
import { seriesMs } from "../../../planning/inference/rivals.ts";
import { searchPlan } from "../../../planning/inference/search.ts";
import { tinyHost } from "./problems.ts";

const TABLE = [
  "layer_name,input,kv_cache,tp_size,latency(ns)",
  "q_proj,4,0,1,400000",
  "q_proj,2,0,1,100000",
  "q_proj,2,512,1,7000000",
  "attn,1,0,1,50000",
].join("\n");

const orderOf = (graph: OperatorGraph): readonly number[] => {
  const checked = checkOperatorGraph(graph, graph.name);
  return checked.kind === "checked" ? checked.order : [];
};

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
  const answer = searchPlan(warm, { estimates: 60 });
  if (answer.kind !== "planned") throw new Error(answer.message);
  const copied = answer.plan.busQueues.flat();
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
