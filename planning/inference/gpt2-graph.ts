/**
 * @file GPT-2 as an operator graph: one chain with short branches, as in SortingHat's figure 1(a).
 *
 * One product gives query, key and value, so the branches after the split hold no weights. The output layer has its own copy of the
 * token table, as in a traced model that reaches a compiler; in training the two are tied.
 */

import type { OperatorGraph } from "../../domain/model/operator-graph.ts";
import {
  graphBuilder,
  type GraphBuilder,
  type InputShape,
  type Made,
  type Ref,
} from "./graph-builder.ts";

export interface Gpt2Size {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
}

const VOCABULARY = 50_257;
const POSITIONS = 1024;

export function gpt2Graph(name: string, size: Gpt2Size, shape: InputShape): OperatorGraph {
  const build = graphBuilder();
  const { layers, width } = size;
  const tokens = shape.batch * shape.sequence;
  const words = build.lookUp("words", build.parameter("wte", VOCABULARY * width), {
    rows: tokens,
    width,
  });
  const places = build.lookUp("places", build.parameter("wpe", POSITIONS * width), {
    rows: shape.sequence,
    width,
  });
  let hidden = build.map("embedding", {
    kind: "Add",
    inputs: [words, places],
    elements: tokens * width,
  });
  for (let layer = 0; layer < layers; layer += 1)
    hidden = addLayer(build, hidden, { ...size, ...shape, prefix: `h${layer}` });
  const normed = norm(build, "ln_f", hidden, { tokens, width });
  build.dense("lm_head", normed, { rows: tokens, inner: width, columns: VOCABULARY });
  return build.graph(name);
}

interface Layer extends Gpt2Size, InputShape {
  readonly prefix: string;
}

function addLayer(build: GraphBuilder, input: Ref, layer: Layer): Ref {
  const { prefix, width, heads, batch, sequence } = layer;
  const tokens = batch * sequence;
  const headWidth = width / heads;
  const dense = (id: string, from: Ref, [inner, columns]: readonly [number, number]): Ref =>
    build.dense(`${prefix}.${id}`, from, { rows: tokens, inner, columns, hasBias: true });
  const map = (id: string, made: Made): Ref =>
    build.map(`${prefix}.${id}`, { ...made, flopsEach: 4 });

  const normed = norm(build, `${prefix}.ln_1`, input, { tokens, width });
  const qkv = dense("c_attn", normed, [width, 3 * width]);
  const query = map("query", { kind: "Transpose", inputs: [qkv], elements: tokens * width });
  const key = map("key", { kind: "Transpose", inputs: [qkv], elements: tokens * width });
  const value = map("value", { kind: "Transpose", inputs: [qkv], elements: tokens * width });
  const pairs = batch * heads * sequence * sequence;
  const scores = build.matmul(
    `${prefix}.scores`,
    { kind: "BatchMatMul", inputs: [query, key], elements: pairs },
    { batch: batch * heads, rows: sequence, inner: headWidth, columns: sequence },
  );
  const masked = map("mask", { kind: "Where", inputs: [scores], elements: pairs });
  const weights = map("softmax", { kind: "Softmax", inputs: [masked], elements: pairs });
  const mixed = build.matmul(
    `${prefix}.mix`,
    { kind: "BatchMatMul", inputs: [weights, value], elements: tokens * width },
    { batch: batch * heads, rows: sequence, inner: sequence, columns: headWidth },
  );
  const merged = map("merge", { kind: "Transpose", inputs: [mixed], elements: tokens * width });
  const projected = dense("c_proj", merged, [width, width]);
  const attended = map("add_1", {
    kind: "Add",
    inputs: [input, projected],
    elements: tokens * width,
  });
  const second = norm(build, `${prefix}.ln_2`, attended, { tokens, width });
  const wide = dense("c_fc", second, [width, 4 * width]);
  const bent = build.map(`${prefix}.gelu`, {
    kind: "Gelu",
    inputs: [wide],
    elements: tokens * 4 * width,
    flopsEach: 12,
  });
  const narrow = dense("mlp_proj", bent, [4 * width, width]);
  return map("add_2", { kind: "Add", inputs: [attended, narrow], elements: tokens * width });
}

function norm(
  build: GraphBuilder,
  id: string,
  input: Ref,
  { tokens, width }: { readonly tokens: number; readonly width: number },
): Ref {
  const elements = tokens * width;
  const centred = build.map(`${id}.mean`, { kind: "Mean", inputs: [input], elements: tokens });
  return build.map(id, {
    kind: "LayerNorm",
    inputs: [input, centred],
    parameters: [build.parameter(`${id}.w`, width), build.parameter(`${id}.b`, width)],
    elements,
    flopsEach: 8,
  });
}
