/**
 * @file Builds a graph of standard ONNX operators by tracing: each call adds a node and knows the shape of what it gives.
 *
 * Shapes are sizes or names of sizes (batch, hosts), because the gradient of a broadcast must know which axes it spread over.
 * Values are created in the order of use, so the list of nodes is a topological order. The element type is a choice: gradients
 * are checked in float64, everything else runs in float32.
 */

import {
  onnxBytes,
  type Dimension,
  type ElementType,
  type OnnxAttribute,
  type OnnxNode,
  type OnnxTensor,
  type OnnxValue,
} from "./onnx-file.ts";

export type Shape = readonly Dimension[];

export interface Value {
  readonly id: number;
  readonly name: string;
  readonly shape: Shape;
  /** How it was made, for the gradient; absent for inputs and constants. */
  readonly made?: Made;
}

/** The operators that have a gradient, with what it needs. */
export type Made =
  | {
      readonly op: "add" | "sub" | "mul" | "div" | "matmul" | "min";
      readonly of: readonly [Value, Value];
    }
  | { readonly op: "relu" | "softmax" | "sqrt"; readonly of: readonly [Value] }
  | { readonly op: "normalise"; readonly of: readonly [Value]; readonly inverse: Value }
  | { readonly op: "reshape"; readonly of: readonly [Value] }
  | { readonly op: "transpose"; readonly of: readonly [Value]; readonly order: readonly number[] }
  | { readonly op: "sum"; readonly of: readonly [Value]; readonly axes: readonly number[] }
  | { readonly op: "slice"; readonly of: readonly [Value]; readonly index: number };

const NO_ATTRIBUTES: ReadonlyMap<string, OnnxAttribute> = new Map();
/** Added to a variance before its root; the value that PyTorch uses. */
const VARIANCE_FLOOR = 1e-5;

export type GraphBuilder = ReturnType<typeof graphBuilder>;

export function graphBuilder(type: "float32" | "float64" = "float32") {
  const nodes: OnnxNode[] = [];
  const constants: OnnxTensor[] = [];
  const inputs: OnnxValue[] = [];
  const known = new Map<string, Value>();
  let lastId = 0;

  const value = (shape: Shape, made?: Made, name?: string): Value => {
    lastId += 1;
    return { id: lastId, name: name ?? `v${String(lastId)}`, shape, ...(made && { made }) };
  };
  const node = (
    op: string,
    of: readonly Value[],
    outputs: readonly Value[],
    attributes: ReadonlyMap<string, OnnxAttribute> = NO_ATTRIBUTES,
  ): void => {
    nodes.push({ op, inputs: of.map(nameOf), outputs: outputs.map(nameOf), attributes });
  };
  const constant = (
    values: readonly number[],
    shape: readonly number[],
    of: ElementType,
  ): Value => {
    const key = `${of}:${shape.join(",")}:${values.join(",")}`;
    const old = known.get(key);
    if (old !== undefined) return old;
    const made = value(shape, undefined, `c${String(known.size)}`);
    known.set(key, made);
    constants.push({ name: made.name, type: of, shape, values });
    return made;
  };
  const whole = (values: readonly number[]): Value => constant(values, [values.length], "int64");
  const one = (op: string, of: readonly Value[], shape: Shape, made?: Made): Value => {
    const made1 = value(shape, made);
    node(op, of, [made1]);
    return made1;
  };

  const graph = {
    type,
    input(name: string, shape: Shape): Value {
      inputs.push({ name, type, shape });
      return value(shape, undefined, name);
    },
    scalar: (number: number): Value => constant([number], [], type),
    add: (a: Value, b: Value): Value =>
      one("Add", [a, b], broadcast(a.shape, b.shape), { op: "add", of: [a, b] }),
    sub: (a: Value, b: Value): Value =>
      one("Sub", [a, b], broadcast(a.shape, b.shape), { op: "sub", of: [a, b] }),
    mul: (a: Value, b: Value): Value =>
      one("Mul", [a, b], broadcast(a.shape, b.shape), { op: "mul", of: [a, b] }),
    div: (a: Value, b: Value): Value =>
      one("Div", [a, b], broadcast(a.shape, b.shape), { op: "div", of: [a, b] }),
    /** The last two axes; the second factor may be a plain matrix. */
    matmul: (a: Value, b: Value): Value =>
      one("MatMul", [a, b], [...a.shape.slice(0, -1), b.shape.at(-1) ?? 1], {
        op: "matmul",
        of: [a, b],
      }),
    relu: (a: Value): Value => one("Relu", [a], a.shape, { op: "relu", of: [a] }),
    sqrt: (a: Value): Value => one("Sqrt", [a], a.shape, { op: "sqrt", of: [a] }),
    /** Over the last axis. */
    softmax: (a: Value): Value => one("Softmax", [a], a.shape, { op: "softmax", of: [a] }),
    /** Mean 0 and variance 1 over the last axis, by plain operators: LayerNormalization is float32 inside, even in float64. */
    normalise(a: Value): Value {
      const mean = graph.mean(a);
      const centred = one("Sub", [a, mean], a.shape);
      const variance = graph.mean(one("Mul", [centred, centred], a.shape));
      const spread = one("Sqrt", [graph.add(variance, graph.scalar(VARIANCE_FLOOR))], mean.shape);
      const inverse = one("Div", [graph.scalar(1), spread], mean.shape);
      return one("Mul", [centred, inverse], a.shape, { op: "normalise", of: [a], inverse });
    },
    /** Over the last axis, which stays with size 1; without a gradient of its own. */
    mean: (a: Value): Value =>
      one("ReduceMean", [a, whole([a.shape.length - 1])], [...a.shape.slice(0, -1), 1]),
    /** The axes stay with size 1. */
    sum: (a: Value, axes: readonly number[]): Value =>
      one(
        "ReduceSum",
        [a, whole(axes)],
        a.shape.map((size, axis) => (axes.includes(axis) ? 1 : size)),
        { op: "sum", of: [a], axes },
      ),
    /** A named size must stay on its axis, or be the only one that is left to infer. */
    reshape(a: Value, shape: Shape): Value {
      const inferred = shape.findIndex(
        (size, axis) => typeof size === "string" && a.shape[axis] !== size,
      );
      const sizes = shape.map((size, axis) =>
        typeof size === "number" ? size : axis === inferred ? -1 : 0,
      );
      return one("Reshape", [a, whole(sizes)], shape, { op: "reshape", of: [a] });
    },
    /** As large as `like`, by repeating axes of size 1; without a gradient of its own. */
    spread: (a: Value, like: Value): Value =>
      one("Expand", [a, one("Shape", [like], [like.shape.length])], like.shape),
    transpose(a: Value, order: readonly number[]): Value {
      const made = value(
        order.map((axis) => a.shape[axis] ?? 1),
        { op: "transpose", of: [a], order },
      );
      node("Transpose", [a], [made], new Map([["perm", order]]));
      return made;
    },
    /** Cuts a vector into pieces that are reshaped. */
    split(vector: Value, shapes: readonly (readonly number[])[]): readonly Value[] {
      const sizes = shapes.map((shape) => shape.reduce((size, by) => size * by, 1));
      const pieces = sizes.map((size, index) =>
        value([size], { op: "slice", of: [vector], index }),
      );
      node("Split", [vector, whole(sizes)], pieces, new Map([["axis", 0]]));
      return pieces.map((piece, index) => {
        const shape = shapes[index] ?? [];
        return shape.length === 1 ? piece : graph.reshape(piece, shape);
      });
    },
    concat(pieces: readonly Value[]): Value {
      const size = pieces.reduce((sum, piece) => sum + Number(piece.shape[0]), 0);
      const made = value([size]);
      node("Concat", pieces, [made], new Map([["axis", 0]]));
      return made;
    },
    min: (a: Value, b: Value): Value =>
      one("Min", [a, b], broadcast(a.shape, b.shape), { op: "min", of: [a, b] }),
    max: (a: Value, b: Value): Value => one("Max", [a, b], broadcast(a.shape, b.shape)),
    /** `a` where `condition` is above 0, otherwise 0. */
    whereAbove0(condition: Value, a: Value): Value {
      const isAbove = one("Greater", [condition, graph.scalar(0)], condition.shape);
      return one("Where", [isAbove, a, graph.scalar(0)], a.shape);
    },
    /** The bytes of a model with these outputs. */
    model(name: string, outputs: readonly (readonly [name: string, value: Value])[]): Uint8Array {
      for (const [outputName, output] of outputs) {
        node("Identity", [output], [{ ...output, name: outputName }]);
      }
      return onnxBytes({
        name,
        nodes,
        constants,
        inputs,
        outputs: outputs.map(([outputName, { shape }]) => ({ name: outputName, type, shape })),
      });
    },
  };
  return graph;
}

const nameOf = ({ name }: Value): string => name;

/** Two sizes meet when they are equal or one of them is 1. */
export function broadcast(a: Shape, b: Shape): Shape {
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
