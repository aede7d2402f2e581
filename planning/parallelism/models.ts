/**
 * @file A model as a row of layers with parameters, FLOPs and bytes for one sample: from a profiled graph or from operators.
 *
 * Transformers are in transformer-layers.ts. A profiled graph is linearised: its operators in topological order, cut where that is allowed; a tensor that crosses a cut counts
 * once per source. Measured times become FLOPs of the GPU on which they were measured, at `MODEL_FLOP_SHARE` of its peak.
 */

import type { ModelGraph } from "../../domain/model/model-graph.ts";
import type { OperatorGraph } from "../../domain/model/operator-graph.ts";
import type { TransformerShape } from "../../domain/model/transformer-shape.ts";
import { crossingOf, orderBy } from "./linear-cut.ts";
import { pipelineGraph, type PipelineGraph } from "./pipeline-graph.ts";

export interface PlanLayer {
  readonly name: string;
  readonly parameters: number;
  /** Of one sample; backward counts twice that. */
  readonly forwardFlops: number;
  /** Of one sample, to the next layer. */
  readonly outputBytes: number;
  /** Of one sample, kept until backward, without scores of attention. */
  readonly activationBytes: number;
  /** Of one sample: scores of attention, kept where it is not fused. */
  readonly scoreBytes?: number;
  /** Of one sample: the forward FLOPs that a second pass over attention's scores takes. */
  readonly scoreFlops?: number;
  /** Of `parameters`, those that every GPU has whole where the layer is split over GPUs. */
  readonly wholeParameters?: number;
  /** Of `parameters`, those of experts among which tokens choose. */
  readonly expertParameters?: number;
  /** Of one sample, to its experts; as much comes back. */
  readonly expertBytes?: number;
  /** `activationBytes` where PyTorch's own modules run the layer, one kernel an operation. */
  readonly eagerBytes?: number;
  /** Of one sample: what is there beside what is kept, where Megatron-Core's kernels run the layer, when gradients pass its activation, or while the loss is computed. */
  readonly workingBytes?: number;
  /** The same when they pass the product before the activation, with its input and its gradient whole on each GPU beside it. */
  readonly productBytes?: number;
  /** Parameters of its largest matrix. */
  readonly largestMatrix?: number;
  /** All-reduces of `outputBytes` in one forward pass when the layer is split over GPUs; 0 when it cannot be. */
  readonly tensorSyncs: number;
  /** Of a profiled graph: its operators in this layer. */
  readonly operators?: readonly number[];
}

/** A profiled graph, whose operators may be cut into stages in another order. */
export interface ProfiledOperators {
  readonly graph: ModelGraph;
  readonly operators: PipelineGraph;
  readonly profiledTeraflops: number;
}

export interface PlanModel {
  readonly name: string;
  /** The kind of one sample. */
  readonly sample: string;
  readonly layers: readonly PlanLayer[];
  /** A layer may be split over as many GPUs as divide this. */
  readonly splitOf: number;
  /** Parameters of the first layer that the last one uses too: a stage of its own keeps them again. */
  readonly tiedParameters?: number;
  readonly shape?: TransformerShape;
  readonly profiled?: ProfiledOperators;
}

/** The default share of a GPU's peak that training reaches: Megatron-LM reports 44 to 52 % on A100. */
export const MODEL_FLOP_SHARE = 0.4;

/** One sample of it is one profiled batch. */
export function graphModel(graph: ModelGraph, profiledTeraflops: number): PlanModel {
  const operators = pipelineGraph(graph);
  const order = orderBy(operators, (operator) => operator);
  return rowModel({ graph, operators, profiledTeraflops }, order, []);
}

/** With the operators in this order, and borders of layers before these places at least. */
export function rowModel(
  profiled: ProfiledOperators,
  order: readonly number[],
  borders: readonly number[],
): PlanModel {
  const { graph, operators, profiledTeraflops } = profiled;
  const flopsPerMs = profiledTeraflops * MODEL_FLOP_SHARE * 1e9;
  const crossing = crossingOf(operators, order);
  const layers = order.map((operator, place): PlanLayer => {
    const first = operators.members[operator]?.[0];
    return {
      name: graph.nodes[first ?? -1]?.name ?? "",
      parameters: (operators.parameterBytes[operator] ?? 0) / 4,
      // Forward and backward together are three forwards.
      forwardFlops: ((operators.workMs[operator] ?? 0) * flopsPerMs) / 3,
      outputBytes: crossing[place + 1] ?? 0,
      activationBytes: operators.keptBytes[operator] ?? 0,
      tensorSyncs: 0,
      operators: [operator],
    };
  });
  return {
    name: graph.name,
    sample: "batch as profiled",
    layers: merged(layers, borders),
    splitOf: 1,
    profiled,
  };
}

/** From an ONNX file's operators, for the batch to which the file was bound; inputs come first in their order. */
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

/** Neighbours joined, where least goes over the border between them last, until they are few enough to plan with; never over `borders`. */
function merged(
  layers: readonly PlanLayer[],
  borders: readonly number[] = [],
): readonly PlanLayer[] {
  if (layers.length <= MOST_LAYERS) return layers;
  const isKept = new Set(borders.map((place) => place - 1));
  const rank = (at: number): number => (isKept.has(at) ? 0 : 1);
  // Cuts stay where the least is handed on, since that is where a stage would end.
  const cuts = layers
    .slice(0, -1)
    .map(({ outputBytes }, at) => ({ at, outputBytes }))
    .sort((a, b) => rank(a.at) - rank(b.at) || a.outputBytes - b.outputBytes || a.at - b.at)
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
    operators: layers.flatMap(({ operators }) => operators ?? []),
  };
}

export const parameterCount = ({ layers }: PlanModel): number =>
  layers.reduce((sum, { parameters }) => sum + parameters, 0);

export const forwardFlops = ({ layers }: PlanModel): number =>
  layers.reduce((sum, layer) => sum + layer.forwardFlops, 0);
