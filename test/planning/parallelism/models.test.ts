/** @file Models as rows of layers: parameters of presets, FLOPs, and graphs whose sums and crossing bytes are counted by hand. */
import { describe, expect, test } from "vitest";
import type { GraphNode, ModelGraph } from "../../../domain/model/model-graph.ts";
import { MODEL_PRESETS } from "../../../domain/model/model-presets.ts";
import type { OperationNode, OperatorGraph } from "../../../domain/model/operator-graph.ts";
import {
  forwardFlops,
  graphModel,
  MODEL_FLOP_SHARE,
  operatorModel,
  parameterCount,
} from "../../../planning/parallelism/models.ts";
import { preset } from "./sites.ts";

test.each([
  { name: "GPT-2 350M", want: 354_823_168 },
  { name: "gpt2-1.3b", want: 1_313_626_112 },
  { name: "gpt2-4.2b", want: 4_235_842_560 },
  { name: "opt-6.7b", want: 6_658_473_984 },
  { name: "opt-13b", want: 12_853_473_280 },
  { name: "bert-110m", want: 109_482_240 },
  { name: "bert-340m", want: 335_141_888 },
  { name: "LLaMA 7B", want: 6_738_415_616 },
  { name: "llama-13b", want: 13_015_864_320 },
  { name: "llama-70b", want: 68_976_648_192 },
])("$name has $want parameters", ({ name, want }) => {
  expect(parameterCount(preset(name))).toBe(want);
});

test("a forward pass costs about two FLOPs a parameter and token", () => {
  for (const name of MODEL_PRESETS.keys()) {
    const model = preset(name);
    const tokens = model.shape?.sequence ?? 1;
    const each = forwardFlops(model) / (parameterCount(model) * tokens);
    expect(each, name).toBeGreaterThan(1.5);
    expect(each, name).toBeLessThan(3);
  }
});

describe("a profiled graph", () => {
  const node = (id: string, forwardMs: number, outputBytes: number): GraphNode => ({
    id,
    name: id,
    forwardMs,
    backwardMs: 2 * forwardMs,
    parameterBytes: 8,
    outputBytes,
    isBackward: false,
    isAcceleratable: true,
  });
  const diamond: ModelGraph = {
    name: "diamond",
    nodes: [node("a", 1, 100), node("b", 2, 10), node("c", 3, 1), node("d", 4, 5)],
    edges: [
      { from: 0, to: 1, bytes: 100 },
      { from: 0, to: 2, bytes: 100 },
      { from: 1, to: 3, bytes: 10 },
      { from: 2, to: 3, bytes: 1 },
    ],
  };

  test("hands each tensor over a border once, until its last reader", () => {
    const { layers } = graphModel(diamond, 100);
    expect(layers.map(({ name }) => name)).toEqual(["a", "b", "c", "d"]);
    expect(layers.map(({ outputBytes }) => outputBytes)).toEqual([100, 110, 11, 0]);
  });

  test("turns measured times into FLOPs: forward and backward together are three forwards", () => {
    const { layers } = graphModel(diamond, 100);
    const flopsPerMs = 100 * MODEL_FLOP_SHARE * 1e9;
    for (const [at, { forwardFlops: flops }] of layers.entries())
      expect(flops / flopsPerMs).toBeCloseTo(at + 1, 9);
    expect(parameterCount(graphModel(diamond, 100))).toBe(8);
  });

  test("of more than 256 nodes is joined where most is handed on, and loses nothing", () => {
    const nodes = Array.from({ length: 300 }, (_, at) => node(`n${at}`, 1, at % 3 === 0 ? 9 : 1));
    const edges = nodes.slice(1).map((_, at) => ({ from: at, to: at + 1, bytes: 1 }));
    const model = graphModel({ name: "long", nodes, edges }, 100);
    expect(model.layers).toHaveLength(256);
    expect(parameterCount(model)).toBe(600);
    const bordersOf9 = model.layers.slice(0, -1).filter(({ outputBytes }) => outputBytes === 9);
    expect(bordersOf9).toHaveLength(100 - 44);
  });
});

test("operators count shared parameters once and costs by the sample", () => {
  const operation = (id: string, inputs: readonly number[]): OperationNode => ({
    id,
    kind: id,
    inputs,
    parameters: [0],
    outputBytes: 40,
    flops: 80,
    movedBytes: 1,
  });
  const graph: OperatorGraph = {
    name: "tied",
    parameters: [{ id: "w", bytes: 400 }],
    operations: [operation("a", []), operation("b", [0])],
  };
  const model = operatorModel(graph, [0, 1], 4);
  expect(parameterCount(model)).toBe(100);
  expect(model.layers.map(({ parameters }) => parameters)).toEqual([100, 0]);
  expect(forwardFlops(model)).toBe(40);
  expect(model.layers.map(({ outputBytes }) => outputBytes)).toEqual([10, 0]);
});
