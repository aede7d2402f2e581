/**
 * @file Llama-3.1-8B in BF16 with the layers of a serving engine, whose times were measured (`domain/model/parse-layer-times.ts`).
 *
 * Fifteen kinds of layers: the rotation of query and key is one kernel, attention is one, residual sums are inside the norms. All tokens of
 * the batch pass every layer together, attention once a sequence. Earlier tokens (`past`) lie in key and value parameters, one pair a layer,
 * as a prompt phase left them (SortingHat §6): on GPUs if the problem says so (`ProblemOptions.resident`), else in host memory. Attention
 * over a past is estimated; the tables have no times of it.
 */

import type { MeasuredTime, OperatorGraph } from "../../domain/model/operator-graph.ts";
import { layerMs, type TimesByTokens } from "../../domain/model/parse-layer-times.ts";
import { graphBuilder, type MatmulSize, type Ref } from "./graph-builder.ts";
import type { InputShape } from "./graph-builder.ts";

export interface LayerTable {
  /** Kind of device that it was measured on. */
  readonly device: string;
  readonly layers: ReadonlyMap<string, TimesByTokens>;
}

export interface MeasuredLlamaShape extends InputShape {
  /** Tokens of each sequence that came before. */
  readonly past?: number;
}

const SIZE = Object.freeze({
  layers: 32,
  width: 4096,
  heads: 32,
  /** Of keys and values together: four queries share one. */
  keyWidth: 1024,
  inner: 14_336,
  vocabulary: 128_256,
});
const BF16_BYTES = 2;
const NORM_FLOPS = 6;

export function measuredLlama(
  { batch, sequence, past = 0 }: MeasuredLlamaShape,
  tables: readonly LayerTable[],
): OperatorGraph {
  const { layers, width, heads, keyWidth, inner, vocabulary } = SIZE;
  const build = graphBuilder(BF16_BYTES);
  const tokens = batch * sequence;
  const kindAt = (prefix: string) => (kind: string) => (prefix === "" ? kind : `${prefix}.${kind}`);

  const dense = (
    named: (kind: string) => string,
    kind: string,
    { from, size }: { readonly from: Ref; readonly size: MatmulSize },
  ): Ref => {
    const parameters = [build.parameter(`${named(kind)}.w`, size.inner * size.columns)];
    const elements = tokens * size.columns;
    return build.matmul(named(kind), { kind, inputs: [from], parameters, elements }, size);
  };
  const norm = (named: (kind: string) => string, kind: string, inputs: readonly Ref[]): Ref => {
    const parameters = [build.parameter(`${named(kind)}.w`, width)];
    // Its outputs are the sum and the normed value.
    const elements = (kind === "final_layernorm" ? 1 : 2) * tokens * width;
    return build.map(named(kind), { kind, inputs, parameters, elements, flopsEach: NORM_FLOPS });
  };
  const by = (from: Ref, wide: number, columns: number) => ({
    from,
    size: { rows: tokens, inner: wide, columns },
  });

  const table = build.parameter("embedding.w", vocabulary * width);
  let hidden = [build.lookUp("embedding", table, { rows: tokens, width })];
  for (let layer = 0; layer < layers; layer += 1) {
    const named = kindAt(`l${layer}`);
    const first = norm(named, "input_layernorm", hidden);
    const query = dense(named, "q_proj", by(first, width, width));
    const key = dense(named, "k_proj", by(first, width, keyWidth));
    const value = dense(named, "v_proj", by(first, width, keyWidth));
    const turned = build.map(named("rope"), {
      kind: "rope",
      inputs: [query, key],
      elements: tokens * (width + keyWidth),
      flopsEach: 4,
    });
    const kept = batch * past * keyWidth;
    const attended = build.matmul(
      named("attn"),
      {
        kind: "attn",
        inputs: [turned, value],
        parameters:
          past === 0
            ? []
            : [build.parameter(named("k_cache"), kept), build.parameter(named("v_cache"), kept)],
        elements: tokens * width,
      },
      // Scores and weighted sums of values cost the same.
      {
        batch: batch * heads,
        rows: sequence,
        inner: (2 * width) / heads,
        columns: past + sequence,
      },
    );
    const output = dense(named, "o_proj", by(attended, width, width));
    const second = norm(named, "post_layernorm", [output, first]);
    const gate = dense(named, "gate_proj", by(second, width, inner));
    const up = dense(named, "up_proj", by(second, width, inner));
    const gated = build.map(named("act_fn"), {
      kind: "act_fn",
      inputs: [gate, up],
      elements: tokens * inner,
      flopsEach: 4,
    });
    hidden = [dense(named, "down_proj", by(gated, inner, width)), second];
  }
  const last = norm(kindAt(""), "final_layernorm", hidden);
  dense(kindAt(""), "lm_head", by(last, width, vocabulary));

  const shape = `${batch}, ${sequence}${past === 0 ? "" : ` after ${past}`}`;
  const graph = build.graph(`Llama-3.1-8B (${shape})`);
  const operations = graph.operations.map((operation) => {
    const { kind } = operation;
    if (kind === "attn" && past > 0) return operation;
    const measured = tables.flatMap(({ device, layers: times }): MeasuredTime[] => {
      const own = times.get(kind) ?? [];
      const ms = kind === "attn" ? layerMs(own, sequence) : layerMs(own, tokens);
      const often = kind === "attn" ? batch : 1;
      return ms === undefined ? [] : [{ device, kernelMs: ms * often }];
    });
    return measured.length === 0 ? operation : { ...operation, measured };
  });
  return { ...graph, operations };
}
