/**
 * @file The nodes, constants and inputs of an ONNX graph while it is built, and the values that they give.
 *
 * Values are created in the order of use, so the list of nodes is a topological order. Equal constants are stored once.
 */

import {
  onnxBytes,
  type Dimension,
  type ElementType,
  type OnnxAttribute,
  type OnnxNode,
  type OnnxTensor,
  type OnnxValue,
} from "../onnx/onnx-file.ts";

/** Sizes, or names of sizes (batch, hosts): the gradient of a broadcast must know along which axes it repeated. */
export type Shape = readonly Dimension[];

export interface Value {
  readonly id: number;
  readonly name: string;
  readonly shape: Shape;
  /** How it was made, for the gradient; absent for inputs and constants. */
  readonly made?: Made;
}

/** The operators that have a gradient, and the values that the gradient needs. */
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

export type FloatType = "float32" | "float64";

export interface GraphTrace {
  readonly type: FloatType;
  readonly input: (name: string, shape: Shape) => Value;
  readonly scalar: (number: number) => Value;
  /** A vector of whole numbers. */
  readonly wholes: (values: readonly number[]) => Value;
  readonly value: (shape: Shape, made?: Made) => Value;
  readonly node: (op: string, of: readonly Value[], gives: Gives) => void;
  /** A node with one output of this shape. */
  readonly one: (op: string, of: readonly Value[], gives: GivesOne) => Value;
  /** The bytes of a model with these outputs. */
  readonly model: (name: string, outputs: readonly NamedOutput[]) => Uint8Array;
}

interface Gives {
  readonly outputs: readonly Value[];
  readonly attributes?: ReadonlyMap<string, OnnxAttribute>;
}

interface GivesOne {
  readonly shape: Shape;
  readonly made?: Made;
}

type NamedOutput = readonly [name: string, value: Value];

const NO_ATTRIBUTES: ReadonlyMap<string, OnnxAttribute> = new Map();

export function openTrace(type: FloatType): GraphTrace {
  const nodes: OnnxNode[] = [];
  const constants: OnnxTensor[] = [];
  const inputs: OnnxValue[] = [];
  const known = new Map<string, Value>();
  let lastId = 0;

  const named = (shape: Shape, name?: string, made?: Made): Value => {
    lastId += 1;
    return { id: lastId, name: name ?? `v${String(lastId)}`, shape, ...(made && { made }) };
  };
  const constant = (
    values: readonly number[],
    shape: readonly number[],
    of: ElementType,
  ): Value => {
    const key = `${of}:${shape.join(",")}:${values.join(",")}`;
    const old = known.get(key);
    if (old !== undefined) return old;
    const made = named(shape, `c${String(known.size)}`);
    known.set(key, made);
    constants.push({ name: made.name, type: of, shape, values });
    return made;
  };
  const node: GraphTrace["node"] = (op, of, { outputs, attributes = NO_ATTRIBUTES }) => {
    nodes.push({ op, inputs: of.map(nameOf), outputs: outputs.map(nameOf), attributes });
  };

  return {
    type,
    node,
    input(name, shape) {
      inputs.push({ name, type, shape });
      return named(shape, name);
    },
    scalar: (number) => constant([number], [], type),
    wholes: (values) => constant(values, [values.length], "int64"),
    value: (shape, made) => named(shape, undefined, made),
    one(op, of, { shape, made }) {
      const output = named(shape, undefined, made);
      node(op, of, { outputs: [output] });
      return output;
    },
    model(name, outputs) {
      for (const [outputName, output] of outputs)
        node("Identity", [output], { outputs: [{ ...output, name: outputName }] });
      return onnxBytes({
        name,
        nodes,
        constants,
        inputs,
        outputs: outputs.map(([outputName, { shape }]) => ({ name: outputName, type, shape })),
      });
    },
  };
}

const nameOf = ({ name }: Value): string => name;
