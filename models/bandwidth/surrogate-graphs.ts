/**
 * @file The two ONNX graphs of a surrogate: answers for a batch, and one step of training.
 *
 * Parameters travel as one vector and are an input of both, so weights that were just trained are used without building a session
 * again, and Adam is a dozen nodes. A step: weighted pseudo-Huber loss (squared near 0, absolute far from it, because some
 * measurements are far off), gradients, their norm cut at 1, Adam with decoupled weight decay, and a running mean of the
 * parameters over the steps, which is what is used in the end.
 */

import { gradients } from "./gradient.ts";
import { graphBuilder, type GraphBuilder, type Value } from "./graph.ts";
import {
  batchInputs,
  parameterCount,
  parameterPieces,
  pieceSize,
  piecesOf,
  transformer,
  type TransformerShape,
} from "./transformer.ts";

/** Standardised residuals beyond this count by their size, not by its square. */
const HUBER_EDGE = 0.05;
const MOST_GRADIENT_NORM = 1;
const ADAM = Object.freeze({ first: 0.9, second: 0.99, floor: 1e-8 });

export function inferenceGraph(shape: TransformerShape): Uint8Array {
  const graph = graphBuilder();
  const vector = graph.input("parameters", [parameterCount(shape)]);
  const batch = batchInputs(graph, shape);
  const answers = transformer(graph, shape, { parameters: piecesOf(graph, shape, vector), batch });
  return graph.model("orbweaver_bandwidth", [["answers", answers]]);
}

/** Loss and its gradient by the parameters, in float64 too: the gradient check of the tests uses it. */
export function lossGraph(shape: TransformerShape, type: "float32" | "float64"): Uint8Array {
  const graph = graphBuilder(type);
  const vector = graph.input("parameters", [parameterCount(shape)]);
  const { loss, gradient } = lossAndGradient(graph, shape, vector);
  return graph.model("orbweaver_bandwidth_loss", [
    ["loss", loss],
    ["gradient", gradient],
  ]);
}

/** Inputs beside the batch: the state (`parameters`, `first`, `second`, `average`) and the figures of the step. */
export function trainingGraph(shape: TransformerShape): Uint8Array {
  const graph = graphBuilder();
  const count = parameterCount(shape);
  const state = (name: string): Value => graph.input(name, [count]);
  const figure = (name: string): Value => graph.input(name, []);
  const { scalar, add, sub, mul, div } = graph;
  const vector = state("parameters");
  const { loss, gradient } = lossAndGradient(graph, shape, vector);
  const norm = graph.sqrt(graph.reshape(graph.sum(mul(gradient, gradient), [0]), []));
  const limit = div(scalar(MOST_GRADIENT_NORM), graph.max(norm, scalar(MOST_GRADIENT_NORM)));
  const cut = mul(gradient, limit);
  const blend = (old: Value, fresh: Value, keep: number): Value =>
    add(mul(old, scalar(keep)), mul(fresh, scalar(1 - keep)));
  const first = blend(state("first"), cut, ADAM.first);
  const second = blend(state("second"), mul(cut, cut), ADAM.second);
  const direction = div(
    mul(first, figure("first_correction")),
    add(graph.sqrt(mul(second, figure("second_correction"))), scalar(ADAM.floor)),
  );
  const decayed = add(direction, mul(vector, figure("decay")));
  const parameters = sub(vector, mul(decayed, figure("rate")));
  const average = state("average");
  const nextAverage = add(average, mul(sub(parameters, average), figure("averaging")));
  return graph.model("orbweaver_bandwidth_step", [
    ["next_parameters", parameters],
    ["next_first", first],
    ["next_second", second],
    ["next_average", nextAverage],
    ["loss", loss],
  ]);
}

/** The factors that undo Adam's start at 0, at step `step` from 1. */
export const adamCorrections = (step: number): { first: number; second: number } => ({
  first: 1 / (1 - ADAM.first ** step),
  second: 1 / (1 - ADAM.second ** step),
});

function lossAndGradient(
  graph: GraphBuilder,
  shape: TransformerShape,
  vector: Value,
): { readonly loss: Value; readonly gradient: Value } {
  const batch = batchInputs(graph, shape);
  const target = graph.input("target", ["batch"]);
  /** What the slowest member host gives, as the target is written; huge where nothing limits. */
  const limit = graph.input("limit", ["batch"]);
  /** Sums to 1 over the batch. */
  const weight = graph.input("weight", ["batch"]);
  const pieces = piecesOf(graph, shape, vector);
  const answers = graph.min(transformer(graph, shape, { parameters: pieces, batch }), limit);
  const residual = graph.sub(answers, target);
  const inEdges = graph.mul(residual, graph.scalar(1 / HUBER_EDGE));
  const root = graph.sqrt(graph.add(graph.mul(inEdges, inEdges), graph.scalar(1)));
  const huber = graph.mul(graph.sub(root, graph.scalar(1)), graph.scalar(HUBER_EDGE ** 2));
  const loss = graph.reshape(graph.sum(graph.mul(huber, weight), [0]), []);
  const parts = gradients(graph, loss, [...pieces.values()]);
  const flat = parameterPieces(shape).flatMap((piece, index) => {
    const part = parts[index];
    return part === undefined ? [] : [graph.reshape(part, [pieceSize(piece)])];
  });
  return { loss, gradient: graph.concat(flat) };
}
