/**
 * @file Builds a graph of standard ONNX operators by tracing: each call adds a node and knows the shape of its output.
 *
 * The element type is a choice: gradients are checked in float64, everything else runs in float32.
 */

import {
  openTrace,
  type FloatType,
  type GraphTrace,
  type Made,
  type Shape,
  type Value,
} from "./graph-trace.ts";

export type { Shape, Value } from "./graph-trace.ts";

/** Added to a variance before its root; the value that PyTorch uses. */
const VARIANCE_FLOOR = 1e-5;

export type GraphBuilder = ReturnType<typeof graphBuilder>;

export function graphBuilder(type: FloatType = "float32") {
  const trace = openTrace(type);
  const { input, scalar, model } = trace;
  const pairs = pairsOf(trace);
  return { type, input, scalar, model, ...pairs, ...rowsOf(trace, pairs), ...shapesOf(trace) };
}

type TwoInputs = Extract<Made, { readonly of: readonly [Value, Value] }>["op"];

/** Operators of two values, and those of one value element by element. */
function pairsOf({ one, scalar }: GraphTrace) {
  const pair =
    (op: string, kind: TwoInputs) =>
    (a: Value, b: Value): Value =>
      one(op, [a, b], { shape: broadcast(a.shape, b.shape), made: { op: kind, of: [a, b] } });
  return {
    add: pair("Add", "add"),
    sub: pair("Sub", "sub"),
    mul: pair("Mul", "mul"),
    div: pair("Div", "div"),
    min: pair("Min", "min"),
    /** Without a gradient of its own. */
    max: (a: Value, b: Value): Value => one("Max", [a, b], { shape: broadcast(a.shape, b.shape) }),
    /** The last two axes; the second factor may be a plain matrix. */
    matmul: (a: Value, b: Value): Value =>
      one("MatMul", [a, b], {
        shape: [...a.shape.slice(0, -1), b.shape.at(-1) ?? 1],
        made: { op: "matmul", of: [a, b] },
      }),
    relu: (a: Value): Value => one("Relu", [a], { shape: a.shape, made: { op: "relu", of: [a] } }),
    sqrt: (a: Value): Value => one("Sqrt", [a], { shape: a.shape, made: { op: "sqrt", of: [a] } }),
    /** `a` where `condition` is above 0, otherwise 0. */
    whereAbove0(condition: Value, a: Value): Value {
      const isAbove = one("Greater", [condition, scalar(0)], { shape: condition.shape });
      return one("Where", [isAbove, a, scalar(0)], { shape: a.shape });
    },
  };
}

/** Operators along axes; those that reduce leave an axis of size 1. */
function rowsOf({ one, scalar, wholes }: GraphTrace, { add }: ReturnType<typeof pairsOf>) {
  /** Over the last axis, without a gradient of its own. */
  const mean = (a: Value): Value =>
    one("ReduceMean", [a, wholes([a.shape.length - 1])], {
      shape: [...a.shape.slice(0, -1), 1],
    });
  return {
    mean,
    /** Over the last axis. */
    softmax: (a: Value): Value =>
      one("Softmax", [a], { shape: a.shape, made: { op: "softmax", of: [a] } }),
    /** Mean 0 and variance 1 over the last axis, by plain operators: LayerNormalization is float32 inside, even in float64. */
    normalise(a: Value): Value {
      const { shape } = a;
      const centre = mean(a);
      const centred = one("Sub", [a, centre], { shape });
      const variance = mean(one("Mul", [centred, centred], { shape }));
      const spread = one("Sqrt", [add(variance, scalar(VARIANCE_FLOOR))], { shape: centre.shape });
      const inverse = one("Div", [scalar(1), spread], { shape: centre.shape });
      return one("Mul", [centred, inverse], { shape, made: { op: "normalise", of: [a], inverse } });
    },
    sum: (a: Value, axes: readonly number[]): Value =>
      one("ReduceSum", [a, wholes(axes)], {
        shape: a.shape.map((size, axis) => (axes.includes(axis) ? 1 : size)),
        made: { op: "sum", of: [a], axes },
      }),
    /** As large as `like`, by repeating axes of size 1; without a gradient of its own. */
    spread: (a: Value, like: Value): Value =>
      one("Expand", [a, one("Shape", [like], { shape: [like.shape.length] })], {
        shape: like.shape,
      }),
  };
}

/** Operators that only change the shape. */
function shapesOf({ one, node, value, wholes }: GraphTrace) {
  /** A named size must stay on its axis, or be the only one that is left to infer. */
  const reshape = (a: Value, shape: Shape): Value => {
    const inferred = shape.findIndex(
      (size, axis) => typeof size === "string" && a.shape[axis] !== size,
    );
    const sizes = shape.map((size, axis) =>
      typeof size === "number" ? size : axis === inferred ? -1 : 0,
    );
    return one("Reshape", [a, wholes(sizes)], { shape, made: { op: "reshape", of: [a] } });
  };
  return {
    reshape,
    transpose(a: Value, order: readonly number[]): Value {
      const shape = order.map((axis) => a.shape[axis] ?? 1);
      const output = value(shape, { op: "transpose", of: [a], order });
      node("Transpose", [a], { outputs: [output], attributes: new Map([["perm", order]]) });
      return output;
    },
    /** Cuts a vector into pieces that are reshaped. */
    split(vector: Value, shapes: readonly (readonly number[])[]): readonly Value[] {
      const sizes = shapes.map((shape) => shape.reduce((size, by) => size * by, 1));
      const outputs = sizes.map((size, index) =>
        value([size], { op: "slice", of: [vector], index }),
      );
      const attributes = new Map([["axis", 0]]);
      node("Split", [vector, wholes(sizes)], { outputs, attributes });
      return outputs.map((piece, index) => {
        const shape = shapes[index] ?? [];
        return shape.length === 1 ? piece : reshape(piece, shape);
      });
    },
    concat(pieces: readonly Value[]): Value {
      const size = pieces.reduce((sum, piece) => sum + Number(piece.shape[0]), 0);
      const output = value([size]);
      node("Concat", pieces, { outputs: [output], attributes: new Map([["axis", 0]]) });
      return output;
    },
  };
}

/** Two sizes meet when they are equal or one of them is 1. */
function broadcast(a: Shape, b: Shape): Shape {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, axis) => {
    const left = a[axis - rank + a.length] ?? 1;
    const right = b[axis - rank + b.length] ?? 1;
    if (left !== right && left !== 1 && right !== 1) {
      throw new RangeError(`shapes [${a.join(",")}] and [${b.join(",")}] do not meet`);
    }
    return left === 1 ? right : left;
  });
}
