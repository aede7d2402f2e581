/**
 * @file The Transformer's answers in plain arrays: the oracle of the ONNX graphs, and the synchronous way to ask.
 *
 * Tokens of all candidates lie packed one behind the other, so there is no padding; only attention and the mean look at
 * which candidate a token is of. Every row is computed by itself, in one order, so an answer never depends on the rest of the
 * batch. Sums run in float64 and are stored as float32; the graphs agree within 1e-4.
 */

import { plainKernel, type DenseKernel, type DenseLayer } from "./dense-kernel.ts";
import type { Token } from "./features.ts";
import { parameterPieces, pieceSize, type TransformerShape } from "./transformer.ts";

const VARIANCE_FLOOR = 1e-5;

export type Forward = (candidates: readonly (readonly Token[])[]) => Float64Array;

/** Parameters are read when this is called, not later. */
export function forwardPass(
  shape: TransformerShape,
  parameters: Float32Array,
  kernel: DenseKernel = plainKernel,
): Forward {
  const pieces = new Map<string, Float32Array>();
  let at = 0;
  for (const piece of parameterPieces(shape)) {
    pieces.set(piece.name, parameters.slice(at, at + pieceSize(piece)));
    at += pieceSize(piece);
  }
  const piece = (name: string): Float32Array => {
    const values = pieces.get(name);
    if (values === undefined) throw new Error(`there is no parameter ${name}`);
    return values;
  };
  const dense = (name: string): DenseLayer =>
    kernel({ weight: piece(`${name}.weight`), bias: piece(`${name}.bias`) });
  const norm = (name: string): Norm => ({
    gain: piece(`${name}.gain`),
    bias: piece(`${name}.bias`),
  });
  const embed = dense("embed");
  const layers = Array.from({ length: shape.layers }, (_, index) => {
    const name = `layer${String(index)}`;
    return {
      beforeAttention: norm(`${name}.before-attention`),
      query: dense(`${name}.query`),
      key: dense(`${name}.key`),
      value: dense(`${name}.value`),
      out: dense(`${name}.out`),
      beforeFeed: norm(`${name}.before-feed`),
      feed: dense(`${name}.feed`),
      back: dense(`${name}.back`),
    };
  });
  const pool = norm("pool");
  const head = [dense("head0"), dense("head1"), dense("head2")] as const;

  return (candidates) => {
    const counts = candidates.map((tokens) => tokens.length);
    const rows = counts.reduce((sum, count) => sum + count, 0);
    const { width } = shape;
    const input = new Float32Array(rows * shape.features);
    const weights = new Float64Array(rows);
    let row = 0;
    for (const tokens of candidates) {
      for (const token of tokens) {
        input.set(token.features, row * shape.features);
        weights[row] = token.count;
        row += 1;
      }
    }
    const stream = embed(input, rows);
    for (const layer of layers) {
      const seen = normalised(layer.beforeAttention, stream, width);
      const [query, key, value] = [layer.query, layer.key, layer.value].map((of) => of(seen, rows));
      if (query === undefined || key === undefined || value === undefined) continue;
      const mixed = attention({ query, key, value, weights, counts, shape });
      addTo(stream, layer.out(mixed, rows));
      const fed = layer.feed(normalised(layer.beforeFeed, stream, width), rows);
      cutBelow0(fed);
      addTo(stream, layer.back(fed, rows));
    }
    const pooled = weightedMeans(normalised(pool, stream, width), { weights, counts, width });
    const first = head[0](pooled, candidates.length);
    cutBelow0(first);
    const second = head[1](first, candidates.length);
    cutBelow0(second);
    return Float64Array.from(head[2](second, candidates.length));
  };
}

interface Norm {
  readonly gain: Float32Array;
  readonly bias: Float32Array;
}

function normalised({ gain, bias }: Norm, input: Float32Array, width: number): Float32Array {
  const output = new Float32Array(input.length);
  for (let base = 0; base < input.length; base += width) {
    let sum = 0;
    for (let at = 0; at < width; at += 1) sum += input[base + at] ?? 0;
    const mean = sum / width;
    let squares = 0;
    for (let at = 0; at < width; at += 1) squares += ((input[base + at] ?? 0) - mean) ** 2;
    const inverse = 1 / Math.sqrt(squares / width + VARIANCE_FLOOR);
    for (let at = 0; at < width; at += 1) {
      output[base + at] =
        ((input[base + at] ?? 0) - mean) * inverse * (gain[at] ?? 0) + (bias[at] ?? 0);
    }
  }
  return output;
}

interface Attention {
  readonly query: Float32Array;
  readonly key: Float32Array;
  readonly value: Float32Array;
  /** Hosts that a token stands for. */
  readonly weights: Float64Array;
  /** Tokens by candidate. */
  readonly counts: readonly number[];
  readonly shape: TransformerShape;
}

function attention({ query, key, value, weights, counts, shape }: Attention): Float32Array {
  const { width, heads } = shape;
  const headWidth = width / heads;
  const scale = 1 / Math.sqrt(headWidth);
  const output = new Float32Array(query.length);
  let base = 0;
  for (const count of counts) {
    const strength = new Float64Array(count);
    for (let from = base; from < base + count; from += 1) {
      for (let offset = 0; offset < width; offset += headWidth) {
        let largest = -Infinity;
        for (let to = 0; to < count; to += 1) {
          let dot = 0;
          for (let at = offset; at < offset + headWidth; at += 1) {
            dot += (query[from * width + at] ?? 0) * (key[(base + to) * width + at] ?? 0);
          }
          strength[to] = dot * scale;
          largest = Math.max(largest, dot * scale);
        }
        let total = 0;
        for (let to = 0; to < count; to += 1) {
          const part = Math.exp((strength[to] ?? 0) - largest) * (weights[base + to] ?? 0);
          strength[to] = part;
          total += part;
        }
        for (let at = offset; at < offset + headWidth; at += 1) {
          let mixed = 0;
          for (let to = 0; to < count; to += 1) {
            mixed += (strength[to] ?? 0) * (value[(base + to) * width + at] ?? 0);
          }
          output[from * width + at] = mixed / total;
        }
      }
    }
    base += count;
  }
  return output;
}

function weightedMeans(
  input: Float32Array,
  {
    weights,
    counts,
    width,
  }: {
    readonly weights: Float64Array;
    readonly counts: readonly number[];
    readonly width: number;
  },
): Float32Array {
  const output = new Float32Array(counts.length * width);
  let base = 0;
  counts.forEach((count, candidate) => {
    let total = 0;
    for (let row = base; row < base + count; row += 1) total += weights[row] ?? 0;
    for (let at = 0; at < width; at += 1) {
      let sum = 0;
      for (let row = base; row < base + count; row += 1) {
        sum += (input[row * width + at] ?? 0) * (weights[row] ?? 0);
      }
      output[candidate * width + at] = sum / total;
    }
    base += count;
  });
  return output;
}

function addTo(sum: Float32Array, part: Float32Array): void {
  for (let at = 0; at < sum.length; at += 1) sum[at] = (sum[at] ?? 0) + (part[at] ?? 0);
}

function cutBelow0(values: Float32Array): void {
  for (let at = 0; at < values.length; at += 1) if ((values[at] ?? 0) < 0) values[at] = 0;
}
