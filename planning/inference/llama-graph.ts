/**
 * @file OpenLLaMA as an operator graph: layers with many branches, as in SortingHat's figure 1(b).
 *
 * Query, key and value are separate products, query and key are rotated separately, and gate and up are two products: each layer has
 * three branches and then two, each with weights. Token table and output layer are not tied.
 */

import type { OperatorGraph } from "../../domain/model/operator-graph.ts";
import {
  graphBuilder,
  type GraphBuilder,
  type InputShape,
  type Made,
  type Ref,
} from "./graph-builder.ts";

export interface LlamaSize {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  /** Width of the gated part. */
  readonly inner: number;
}

const VOCABULARY = 32_000;

export function llamaGraph(name: string, size: LlamaSize, shape: InputShape): OperatorGraph {
  const build = graphBuilder();
  const { layers, width } = size;
  const tokens = shape.batch * shape.sequence;
  let hidden = build.lookUp("words", build.parameter("embed_tokens", VOCABULARY * width), {
    rows: tokens,
    width,
  });
  for (let layer = 0; layer < layers; layer += 1)
    hidden = addLayer(build, hidden, { ...size, ...shape, prefix: `l${layer}` });
  const normed = norm(build, "norm", hidden, { tokens, width });
  build.dense("lm_head", normed, { rows: tokens, inner: width, columns: VOCABULARY });
  return build.graph(name);
}

interface Layer extends LlamaSize, InputShape {
  readonly prefix: string;
}

function addLayer(build: GraphBuilder, input: Ref, layer: Layer): Ref {
  const { prefix, width, heads, inner: gated, batch, sequence } = layer;
  const tokens = batch * sequence;
  const headWidth = width / heads;
  const dense = (id: string, from: Ref, [inner, columns]: readonly [number, number]): Ref =>
    build.dense(`${prefix}.${id}`, from, { rows: tokens, inner, columns });
  const map = (
    id: string,
    { elements = tokens * width, ...made }: Omit<Made, "elements"> & Partial<Made>,
  ): Ref => build.map(`${prefix}.${id}`, { ...made, elements, flopsEach: 4 });
  const rotated = (id: string, from: Ref): Ref => {
    const spread = map(`${id}.transpose`, { kind: "Transpose", inputs: [from] });
    const turned = map(`${id}.rotate`, { kind: "RotateHalf", inputs: [spread] });
    return map(`${id}.rope`, { kind: "Rope", inputs: [spread, turned] });
  };

  const normed = norm(build, `${prefix}.input_norm`, input, { tokens, width });
  const query = rotated("q", dense("q_proj", normed, [width, width]));
  const key = rotated("k", dense("k_proj", normed, [width, width]));
  const value = map("v.transpose", {
    kind: "Transpose",
    inputs: [dense("v_proj", normed, [width, width])],
  });
  const pairs = batch * heads * sequence * sequence;
  const scores = build.matmul(
    `${prefix}.scores`,
    { kind: "BatchMatMul", inputs: [query, key], elements: pairs },
    { batch: batch * heads, rows: sequence, inner: headWidth, columns: sequence },
  );
  const masked = map("mask", { kind: "Add", inputs: [scores], elements: pairs });
  const weights = map("softmax", { kind: "Softmax", inputs: [masked], elements: pairs });
  const mixed = build.matmul(
    `${prefix}.mix`,
    { kind: "BatchMatMul", inputs: [weights, value], elements: tokens * width },
    { batch: batch * heads, rows: sequence, inner: sequence, columns: headWidth },
  );
  const merged = map("merge", { kind: "Transpose", inputs: [mixed] });
  const attended = map("add_1", {
    kind: "Add",
    inputs: [input, dense("o_proj", merged, [width, width])],
  });
  const second = norm(build, `${prefix}.post_norm`, attended, { tokens, width });
  const gate = map("silu", {
    kind: "Silu",
    inputs: [dense("gate_proj", second, [width, gated])],
    elements: tokens * gated,
  });
  const up = dense("up_proj", second, [width, gated]);
  const product = map("gated", { kind: "Mul", inputs: [gate, up], elements: tokens * gated });
  return map("add_2", {
    kind: "Add",
    inputs: [attended, dense("down_proj", product, [gated, width])],
  });
}

function norm(
  build: GraphBuilder,
  id: string,
  input: Ref,
  { tokens, width }: { readonly tokens: number; readonly width: number },
): Ref {
  const squares = build.map(`${id}.mean`, { kind: "Mean", inputs: [input], elements: tokens });
  return build.map(id, {
    kind: "RmsNorm",
    inputs: [input, squares],
    parameters: [build.parameter(`${id}.w`, width)],
    elements: tokens * width,
    flopsEach: 4,
  });
}
