/** @file GPT-2 as a graph: the published number of parameters, the FLOPs of its products, and where its layers branch. */

import { expect, it } from "vitest";
import { checkOperatorGraph } from "../../../domain/model/operator-graph.ts";
import { gpt2Graph } from "../../../planning/inference/gpt2-graph.ts";

const SMALL = { layers: 12, width: 768, heads: 12 };
const VOCABULARY = 50_257;
const graphOf = (batch: number, sequence: number) => gpt2Graph("GPT-2", SMALL, { batch, sequence });
const sum = (values: readonly number[]): number => values.reduce((total, each) => total + each, 0);

it.each([
  { size: SMALL, published: 124_439_808 },
  { size: { layers: 24, width: 1024, heads: 16 }, published: 354_823_168 },
])("has $published parameters, and the token table again for the output", ({ size, published }) => {
  const { parameters } = gpt2Graph("GPT-2", size, { batch: 1, sequence: 8 });
  expect(sum(parameters.map(({ bytes }) => bytes)) / 4).toBe(published + VOCABULARY * size.width);
});

it("multiplies each token with each weight once, and tokens of a sequence with each other", () => {
  for (const [batch, sequence] of [
    [1, 32],
    [3, 16],
  ] as const) {
    const { operations } = graphOf(batch, sequence);
    const flopsOf = (kind: string): number =>
      sum(operations.filter((each) => each.kind === kind).map(({ flops }) => flops));
    const weights = 12 * 12 * 768 ** 2 + VOCABULARY * 768;
    expect(flopsOf("MatMul")).toBe(2 * batch * sequence * weights);
    expect(flopsOf("BatchMatMul")).toBe(12 * 4 * batch * sequence ** 2 * 768);
  }
});

it("is whole and without circles, nineteen operations a layer", () => {
  const graph = graphOf(1, 8);
  expect(checkOperatorGraph(graph, graph.name).kind).toBe("checked");
  expect(graph.operations).toHaveLength(12 * 19 + 6);
});

it("has no weights on the branches behind the product that gives query, key and value", () => {
  const { operations } = graphOf(1, 8);
  const split = operations.findIndex(({ id }) => id === "h0.c_attn");
  const branches = operations.filter(({ inputs }) => inputs.includes(split));
  expect(branches.map(({ id, parameters }) => [id, parameters])).toEqual([
    ["h0.query", []],
    ["h0.key", []],
    ["h0.value", []],
  ]);
});
