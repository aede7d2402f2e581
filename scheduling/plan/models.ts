/**
 * @file A model as a row of layers with parameters, FLOPs and bytes for one sample: from a preset's shape, a profiled graph, or operators.
 *
 * Formulas, per sample of s tokens, width h, feed-forward f, a heads, g key-value heads, 16-bit numbers:
 * block parameters = attention (2h² + 2h²g/a, with biases 4h) + feed-forward (2hf, three matrices where it is gated) + norms;
 * forward FLOPs = 2 × s × weights of its matrices + 4s²h for the scores and their use; a layer hands on 2sh bytes;
 * activations kept for backward = 34sh + 5as² bytes (Korthikanti et al. 2022, §4.1; without the second term where attention is fused, as for
 * LLaMA). A profiled graph is linearised: its operators in topological order, cut where they may be; what crosses a cut is
 * handed on once per source. Measured times become FLOPs of the GPU they were measured on at `MODEL_FLOP_SHARE` of its peak.
 */

import { topologicalOrder, type ModelGraph } from "../../domain/model-graph.ts";
import type { OperatorGraph } from "../../domain/operator-graph.ts";
import type { TransformerShape } from "../../domain/model-presets.ts";

export interface PlanLayer {
  readonly name: string;
  readonly parameters: number;
  /** Of one sample; backward counts twice that. */
  readonly forwardFlops: number;
  /** Of one sample, to the next layer. */
  readonly outputBytes: number;
  /** Of one sample, kept until backward. */
  readonly activationBytes: number;
  /** All-reduces of `outputBytes` in one forward pass when the layer is split over GPUs; 0 when it cannot be. */
  readonly tensorSyncs: number;
}

export interface PlanModel {
  readonly name: string;
  /** What one sample is. */
  readonly sample: string;
  readonly layers: readonly PlanLayer[];
  /** A layer may be split over as many GPUs as divide this. */
  readonly splitOf: number;
  readonly shape?: TransformerShape;
}

/** The share of a GPU's peak that training reaches where nothing is known: Megatron-LM reports 44 to 52 % on A100. */
export const MODEL_FLOP_SHARE = 0.4;

const BYTES = 2;

export function presetModel(name: string, shape: TransformerShape): PlanModel {
  const { layers, hidden: h, vocabulary, positions, sequence: s, family } = shape;
  const isLlama = family === "llama";
  const norm = isLlama ? h : 2 * h;
  const block = blockLayer(shape);
  const embedding: PlanLayer = {
    name: "embedding",
    parameters: (vocabulary + positions) * h + (family === "bert" ? 2 * h + norm : 0),
    forwardFlops: 0,
    outputBytes: BYTES * s * h,
    activationBytes: BYTES * s * h,
    tensorSyncs: 1,
  };
  const head: PlanLayer = {
    name: "head",
    // BERT ends in a pooler; LLaMA has a matrix of its own, the others share the embedding's.
    parameters: family === "bert" ? h * h + h : norm + (isLlama ? vocabulary * h : 0),
    forwardFlops: family === "bert" ? 2 * h * h : 2 * s * vocabulary * h,
    outputBytes: 4 * s,
    activationBytes: family === "bert" ? BYTES * s * h : BYTES * s * h + 4 * s * vocabulary,
    tensorSyncs: 1,
  };
  return {
    name,
    sample: `sequence of ${s} tokens`,
    layers: [
      embedding,
      ...Array.from({ length: layers }, (_, at) => ({ ...block, name: `block ${at}` })),
      head,
    ],
    splitOf: shape.keyValueHeads,
    shape,
  };
}

function blockLayer(shape: TransformerShape): PlanLayer {
  const { hidden: h, heads, keyValueHeads, feedForward: f, sequence: s, family } = shape;
  const isLlama = family === "llama";
  const attention = 2 * h * h + (2 * h * h * keyValueHeads) / heads;
  const matrices = attention + (isLlama ? 3 : 2) * h * f;
  // Four biases of attention, two of the feed-forward part, two norms of scale and shift.
  const others = isLlama ? 2 * h : 4 * h + f + h + 4 * h;
  return {
    name: "block",
    parameters: matrices + others,
    forwardFlops: 2 * s * matrices + 4 * s * s * h,
    outputBytes: BYTES * s * h,
    activationBytes: 34 * s * h + (isLlama ? 0 : 5 * heads * s * s),
    tensorSyncs: 2,
  };
}

/** One sample of it is one batch as it was profiled. */
export function graphModel(graph: ModelGraph, profiledTeraflops: number): PlanModel {
  const order = topologicalOrder(graph) ?? [];
  const flopsPerMs = profiledTeraflops * MODEL_FLOP_SHARE * 1e9;
  const nodes = order.flatMap((at) => graph.nodes[at] ?? []);
  const crossing = crossingBytes(
    order,
    graph.nodes.map(({ outputBytes }) => outputBytes),
    graph.edges.map(({ from, to }) => [from, to] as const),
  );
  const layers = nodes.map((node, place): PlanLayer => ({
    name: node.name,
    parameters: node.parameterBytes / 4,
    // Forward and backward together are three forwards.
    forwardFlops: ((node.forwardMs + node.backwardMs) * flopsPerMs) / 3,
    outputBytes: crossing[place] ?? 0,
    activationBytes: node.outputBytes,
    tensorSyncs: 0,
  }));
  return { name: graph.name, sample: "batch as profiled", layers: merged(layers), splitOf: 1 };
}

/** From an ONNX file's operators, of the batch that it was bound to; they are in an order in which inputs come first. */
export function operatorModel(
  graph: OperatorGraph,
  order: readonly number[],
  samples: number,
): PlanModel {
  const parameterBytes = graph.parameters.map(({ bytes }) => bytes);
  const isCounted = graph.parameters.map(() => false);
  const edges = graph.operations.flatMap(({ inputs }, to) =>
    inputs.map((from) => [from, to] as const),
  );
  const crossing = crossingBytes(
    order,
    graph.operations.map(({ outputBytes }) => outputBytes),
    edges,
  );
  const layers = order.flatMap((at, place): PlanLayer[] => {
    const operation = graph.operations[at];
    if (operation === undefined) return [];
    let bytes = 0;
    for (const parameter of operation.parameters) {
      // Shared parameters count where they are read first.
      if (isCounted[parameter] !== true) bytes += parameterBytes[parameter] ?? 0;
      isCounted[parameter] = true;
    }
    return [
      {
        name: operation.kind,
        parameters: bytes / 4,
        forwardFlops: operation.flops / samples,
        outputBytes: (crossing[place] ?? 0) / samples,
        activationBytes: operation.outputBytes / samples,
        tensorSyncs: 0,
      },
    ];
  });
  return { name: graph.name, sample: "sample", layers: merged(layers), splitOf: 1 };
}

/** What goes over the cut behind each place of the order: every tensor once that is made before it and read after it. */
function crossingBytes(
  order: readonly number[],
  outputBytes: readonly number[],
  edges: readonly (readonly [from: number, to: number])[],
): readonly number[] {
  const places = new Map(order.map((node, place) => [node, place]));
  const lastRead = new Map<number, number>();
  for (const [from, to] of edges)
    lastRead.set(from, Math.max(lastRead.get(from) ?? 0, places.get(to) ?? 0));
  const change = new Float64Array(order.length + 1);
  for (const [from, last] of lastRead) {
    const place = places.get(from) ?? 0;
    change[place] = (change[place] ?? 0) + (outputBytes[from] ?? 0);
    change[last] = (change[last] ?? 0) - (outputBytes[from] ?? 0);
  }
  let open = 0;
  return order.map((_, place) => Math.max(0, (open += change[place] ?? 0)));
}

const MOST_LAYERS = 256;

/** Neighbours joined, where least goes over the border between them last, until they are few enough to plan with. */
function merged(layers: readonly PlanLayer[]): readonly PlanLayer[] {
  if (layers.length <= MOST_LAYERS) return layers;
  // Cuts stay where the least is handed on, since that is where a stage would end.
  const cuts = layers
    .slice(0, -1)
    .map(({ outputBytes }, at) => ({ at, outputBytes }))
    .sort((a, b) => a.outputBytes - b.outputBytes || a.at - b.at)
    .slice(0, MOST_LAYERS - 1)
    .map(({ at }) => at)
    .sort((a, b) => a - b);
  return [...cuts, layers.length - 1].map((end, at) =>
    joined(layers.slice(at === 0 ? 0 : (cuts[at - 1] ?? 0) + 1, end + 1)),
  );
}

function joined(layers: readonly PlanLayer[]): PlanLayer {
  const sum = (of: (layer: PlanLayer) => number): number =>
    layers.reduce((total, layer) => total + of(layer), 0);
  const [first] = layers;
  return {
    name:
      layers.length > 1
        ? `${first?.name ?? ""} … ${layers.at(-1)?.name ?? ""}`
        : (first?.name ?? ""),
    parameters: sum(({ parameters }) => parameters),
    forwardFlops: sum(({ forwardFlops }) => forwardFlops),
    outputBytes: layers.at(-1)?.outputBytes ?? 0,
    activationBytes: sum(({ activationBytes }) => activationBytes),
    tensorSyncs: 0,
  };
}

export const parameterCount = ({ layers }: PlanModel): number =>
  layers.reduce((sum, { parameters }) => sum + parameters, 0);

export const forwardFlops = ({ layers }: PlanModel): number =>
  layers.reduce((sum, layer) => sum + layer.forwardFlops, 0);
