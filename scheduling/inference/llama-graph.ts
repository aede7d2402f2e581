/**
 * @file OpenLLaMA as an operator graph: layers with many branches, as SortingHat's figure 1(b) shows them.
 *
 * Query, key and value are products of their own, query and key are rotated on their own, gate and up are two products: each
 * layer offers three branches and then two, with weights on every one. Token table and output layer are not tied.
 */

import type { OperatorGraph } from "../../domain/operator-graph.ts";
import { graphBuilder, type GraphBuilder, type Ref } from "./graph-builder.ts";
import type { InputShape } from "./paper-models.ts";

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
  const map = (id: string, kind: string, inputs: readonly Ref[], elements = tokens * width): Ref =>
    build.map(`${prefix}.${id}`, { kind, inputs, elements, flopsEach: 4 });
  const rotated = (id: string, from: Ref): Ref => {
    const spread = map(`${id}.transpose`, "Transpose", [from]);
    const turned = map(`${id}.rotate`, "RotateHalf", [spread]);
    return map(`${id}.rope`, "Rope", [spread, turned]);
  };

  const normed = norm(build, `${prefix}.input_norm`, input, { tokens, width });
  const query = rotated("q", dense("q_proj", normed, [width, width]));
  const key = rotated("k", dense("k_proj", normed, [width, width]));
  const value = map("v.transpose", "Transpose", [dense("v_proj", normed, [width, width])]);
  const pairs = batch * heads * sequence * sequence;
  const scores = build.matmul(
    `${prefix}.scores`,
    { kind: "BatchMatMul", inputs: [query, key], elements: pairs },
    { batch: batch * heads, rows: sequence, inner: headWidth, columns: sequence },
  );
  const masked = map("mask", "Add", [scores], pairs);
  const weights = map("softmax", "Softmax", [masked], pairs);
  const mixed = build.matmul(
    `${prefix}.mix`,
    { kind: "BatchMatMul", inputs: [weights, value], elements: tokens * width },
    { batch: batch * heads, rows: sequence, inner: sequence, columns: headWidth },
  );
  const merged = map("merge", "Transpose", [mixed]);
  const attended = map("add_1", "Add", [input, dense("o_proj", merged, [width, width])]);
  const second = norm(build, `${prefix}.post_norm`, attended, { tokens, width });
  const gate = map("silu", "Silu", [dense("gate_proj", second, [width, gated])], tokens * gated);
  const up = dense("up_proj", second, [width, gated]);
  const product = map("gated", "Mul", [gate, up], tokens * gated);
  return map("add_2", "Add", [attended, dense("down_proj", product, [gated, width])]);
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
