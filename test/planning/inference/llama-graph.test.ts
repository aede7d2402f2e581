/** @file OpenLLaMA as a graph: the published number of parameters, the FLOPs of its products, and where its layers branch. */

import { expect, it } from "vitest";
import { checkOperatorGraph } from "../../../domain/model/operator-graph.ts";
import { llamaGraph } from "../../../planning/inference/llama-graph.ts";

const THREE = { layers: 26, width: 3200, heads: 32, inner: 8640 };
const SEVEN = { layers: 32, width: 4096, heads: 32, inner: 11_008 };
const VOCABULARY = 32_000;
const sum = (values: readonly number[]): number => values.reduce((total, each) => total + each, 0);

it.each([
  { size: THREE, published: 3_426_473_600 },
  { size: SEVEN, published: 6_738_415_616 },
])("has the $published parameters of the published model", ({ size, published }) => {
  const { parameters } = llamaGraph("OpenLLaMA", size, { batch: 1, sequence: 8 });
  expect(sum(parameters.map(({ bytes }) => bytes)) / 4).toBe(published);
});

it("multiplies each token with each weight once, and tokens of a sequence with each other", () => {
  for (const [batch, sequence] of [
    [1, 32],
    [3, 16],
  ] as const) {
    const { operations } = llamaGraph("OpenLLaMA", THREE, { batch, sequence });
    const flopsOf = (kind: string): number =>
      sum(operations.filter((each) => each.kind === kind).map(({ flops }) => flops));
    const weights = 26 * (4 * 3200 ** 2 + 3 * 3200 * 8640) + VOCABULARY * 3200;
    expect(flopsOf("MatMul")).toBe(2 * batch * sequence * weights);
    expect(flopsOf("BatchMatMul")).toBe(26 * 4 * batch * sequence ** 2 * 3200);
  }
});

it("is whole and without circles, and each layer has three branches with weights and then two", () => {
  const graph = llamaGraph("OpenLLaMA", SEVEN, { batch: 1, sequence: 8 });
  expect(checkOperatorGraph(graph, graph.name).kind).toBe("checked");
  const products = (norm: string): readonly string[] => {
    const from = graph.operations.findIndex(({ id }) => id === norm);
    return graph.operations
      .filter(({ inputs, parameters }) => inputs.includes(from) && parameters.length > 0)
      .map(({ id }) => id);
  };
  expect(products("l31.input_norm")).toEqual(["l31.q_proj", "l31.k_proj", "l31.v_proj"]);
  expect(products("l31.post_norm")).toEqual(["l31.gate_proj", "l31.up_proj"]);
  // The norm, its squares and the output layer come last, the table first.
  expect(graph.operations).toHaveLength(32 * 27 + 4);
});
