/** @file The four models and the four input shapes of SortingHat's measurements (section 4.1). */

import type { OperatorGraph } from "../../domain/model/operator-graph.ts";
import type { InputShape } from "./graph-builder.ts";
import { gpt2Graph, type Gpt2Size } from "./gpt2-graph.ts";
import { llamaGraph, type LlamaSize } from "./llama-graph.ts";

export const PAPER_SHAPES: readonly InputShape[] = [
  { batch: 1, sequence: 32 },
  { batch: 1, sequence: 1024 },
  { batch: 4, sequence: 128 },
  { batch: 32, sequence: 64 },
];

export const PAPER_MODELS = ["GPT2-large", "GPT2-xl", "OpenLLaMA-3B", "OpenLLaMA-7B"] as const;
export type PaperModel = (typeof PAPER_MODELS)[number];

const GPT2: Readonly<Record<"GPT2-large" | "GPT2-xl", Gpt2Size>> = {
  "GPT2-large": { layers: 36, width: 1280, heads: 20 },
  "GPT2-xl": { layers: 48, width: 1600, heads: 25 },
};
const LLAMA: Readonly<Record<"OpenLLaMA-3B" | "OpenLLaMA-7B", LlamaSize>> = {
  "OpenLLaMA-3B": { layers: 26, width: 3200, heads: 32, inner: 8640 },
  "OpenLLaMA-7B": { layers: 32, width: 4096, heads: 32, inner: 11_008 },
};

export function paperGraph(model: PaperModel, shape: InputShape): OperatorGraph {
  const name = `${model} (${shape.batch}, ${shape.sequence})`;
  switch (model) {
    case "GPT2-large":
    case "GPT2-xl":
      return gpt2Graph(name, GPT2[model], shape);
    case "OpenLLaMA-3B":
    case "OpenLLaMA-7B":
      return llamaGraph(name, LLAMA[model], shape);
  }
}
