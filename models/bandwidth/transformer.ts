/**
 * @file The Transformer of the surrogate: which parameters it has, where each lies in the one vector, and its graph.
 *
 * BandPilot §4.2.2: 6 encoder layers, width 32, a head of 3 layers; with 4 attention heads and 128 hidden units about 90,000
 * parameters (356 kB). Pre-norm, ReLU, no positions: a set of tokens has no order. A token stands for `m` hosts that look the same:
 * its attention logits are raised by log m and the mean over hosts counts it m times, which gives exactly what m equal tokens
 * would give, at the cost of one.
 */

import type { Random } from "../../lib/random.ts";
import type { GraphBuilder, Value } from "./graph.ts";

export interface TransformerShape {
  readonly features: number;
  readonly width: number;
  readonly layers: number;
  readonly heads: number;
  /** Hidden units of the feed-forward part of a layer. */
  readonly hidden: number;
  /** Hidden units of the first two layers of the head. */
  readonly head: readonly [number, number];
}

export const transformerShape = (features: number): TransformerShape => ({
  features,
  width: 32,
  layers: 6,
  heads: 4,
  hidden: 128,
  head: [128, 64],
});

/** A matrix, a bias or the gain of a normalisation. */
interface ParameterPiece {
  readonly name: string;
  readonly shape: readonly number[];
  readonly start: "random" | "zero" | "one";
}

export function parameterPieces(shape: TransformerShape): readonly ParameterPiece[] {
  const { width, hidden, head } = shape;
  const dense = (name: string, from: number, to: number): ParameterPiece[] => [
    { name: `${name}.weight`, shape: [from, to], start: "random" },
    { name: `${name}.bias`, shape: [to], start: "zero" },
  ];
  const norm = (name: string): ParameterPiece[] => [
    { name: `${name}.gain`, shape: [width], start: "one" },
    { name: `${name}.bias`, shape: [width], start: "zero" },
  ];
  const layers = Array.from({ length: shape.layers }, (_, index) => {
    const name = `layer${String(index)}`;
    return [
      ...norm(`${name}.before-attention`),
      ...dense(`${name}.query`, width, width),
      ...dense(`${name}.key`, width, width),
      ...dense(`${name}.value`, width, width),
      ...dense(`${name}.out`, width, width),
      ...norm(`${name}.before-feed`),
      ...dense(`${name}.feed`, width, hidden),
      ...dense(`${name}.back`, hidden, width),
    ];
  });
  return [
    ...dense("embed", shape.features, width),
    ...layers.flat(),
    ...norm("pool"),
    ...dense("head0", width, head[0]),
    ...dense("head1", head[0], head[1]),
    ...dense("head2", head[1], 1),
  ];
}

export const pieceSize = ({ shape }: ParameterPiece): number =>
  shape.reduce((size, by) => size * by, 1);

export const parameterCount = (shape: TransformerShape): number =>
  parameterPieces(shape).reduce((sum, piece) => sum + pieceSize(piece), 0);

/**
 * Weights uniform with variance 1 / inputs, biases 0, gains 1. What goes back into the stream of a layer starts smaller, so that
 * the sum over the layers starts with about the variance of one.
 */
export function freshParameters(shape: TransformerShape, random: Random): Float32Array {
  const parameters = new Float32Array(parameterCount(shape));
  const damp = 1 / Math.sqrt(2 * shape.layers);
  let at = 0;
  for (const piece of parameterPieces(shape)) {
    const size = pieceSize(piece);
    const isIntoStream = /\.(out|back)\.weight$/.test(piece.name);
    const bound = Math.sqrt(3 / (piece.shape[0] ?? 1)) * (isIntoStream ? damp : 1);
    for (let index = 0; index < size; index += 1) {
      parameters[at + index] =
        piece.start === "random" ? (2 * random.unit() - 1) * bound : piece.start === "one" ? 1 : 0;
    }
    at += size;
  }
  return parameters;
}

/** What the graph reads of a batch; `batch` and `tokens` are chosen at every run. */
interface BatchInputs {
  /** [batch, tokens, features] */
  readonly features: Value;
  /** [batch, tokens]: log of how many hosts the token stands for; `ABSENT` where there is none. */
  readonly logCount: Value;
  /** [batch, tokens]: the token's share of the candidate's hosts; 0 where there is none. */
  readonly share: Value;
}

/** The logarithm of no host: after the softmax nothing is left of such a token. */
export const ABSENT = -1e9;

export function batchInputs(graph: GraphBuilder, { features }: TransformerShape): BatchInputs {
  return {
    features: graph.input("features", ["batch", "tokens", features]),
    logCount: graph.input("log_count", ["batch", "tokens"]),
    share: graph.input("share", ["batch", "tokens"]),
  };
}

/** Parameters as the pieces of one vector, by name. */
export function piecesOf(
  graph: GraphBuilder,
  shape: TransformerShape,
  vector: Value,
): ReadonlyMap<string, Value> {
  const pieces = parameterPieces(shape);
  const values = graph.split(
    vector,
    pieces.map((piece) => piece.shape),
  );
  return new Map(
    pieces.flatMap(({ name }, index) => {
      const value = values[index];
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}

interface TransformerValues {
  readonly parameters: ReadonlyMap<string, Value>;
  readonly batch: BatchInputs;
}

/** The answer of each candidate, [batch]: a standardised logarithm of its bandwidth. */
export function transformer(
  graph: GraphBuilder,
  shape: TransformerShape,
  { parameters, batch }: TransformerValues,
): Value {
  const { width, heads } = shape;
  const headWidth = width / heads;
  const parameter = (name: string): Value => {
    const value = parameters.get(name);
    if (value === undefined) throw new Error(`there is no parameter ${name}`);
    return value;
  };
  const dense = (x: Value, name: string): Value =>
    graph.add(graph.matmul(x, parameter(`${name}.weight`)), parameter(`${name}.bias`));
  const norm = (x: Value, name: string): Value =>
    graph.add(graph.mul(graph.normalise(x), parameter(`${name}.gain`)), parameter(`${name}.bias`));
  const inHeads = (x: Value, order: readonly number[]): Value =>
    graph.transpose(graph.reshape(x, ["batch", "tokens", heads, headWidth]), order);
  const logCount = graph.reshape(batch.logCount, ["batch", 1, 1, "tokens"]);
  const attend = (x: Value, name: string): Value => {
    const query = inHeads(dense(x, `${name}.query`), [0, 2, 1, 3]);
    const key = inHeads(dense(x, `${name}.key`), [0, 2, 3, 1]);
    const content = inHeads(dense(x, `${name}.value`), [0, 2, 1, 3]);
    const logits = graph.mul(graph.matmul(query, key), graph.scalar(1 / Math.sqrt(headWidth)));
    const mixed = graph.matmul(graph.softmax(graph.add(logits, logCount)), content);
    return graph.reshape(graph.transpose(mixed, [0, 2, 1, 3]), ["batch", "tokens", width]);
  };
  let stream = dense(batch.features, "embed");
  for (let index = 0; index < shape.layers; index += 1) {
    const name = `layer${String(index)}`;
    const attended = dense(attend(norm(stream, `${name}.before-attention`), name), `${name}.out`);
    stream = graph.add(stream, attended);
    const fed = graph.relu(dense(norm(stream, `${name}.before-feed`), `${name}.feed`));
    stream = graph.add(stream, dense(fed, `${name}.back`));
  }
  const share = graph.reshape(batch.share, ["batch", "tokens", 1]);
  const pooled = graph.sum(graph.mul(norm(stream, "pool"), share), [1]);
  const first = graph.relu(dense(graph.reshape(pooled, ["batch", width]), "head0"));
  return graph.reshape(dense(graph.relu(dense(first, "head1")), "head2"), ["batch"]);
}
