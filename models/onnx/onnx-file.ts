/**
 * @file Writes an ONNX model of our own as bytes.
 *
 * Only float tensors, int64 constants and integer attributes, which is all that our graphs use. Fields are written in the order of their numbers, so the same graph gives the same bytes.
 */

import {
  ATTRIBUTE,
  ATTRIBUTE_TYPES,
  DIMENSION,
  GRAPH,
  MODEL,
  NODE,
  OPSET as OPSET_ID,
  SHAPE,
  TENSOR,
  TENSOR_TYPE,
  TYPE,
  VALUE_INFO,
} from "./onnx-messages.ts";
import { typeCode } from "./onnx-type.ts";

export type ElementType = "float32" | "float64" | "int64";

/** A dimension: its size, or the name of a size that the caller chooses. */
export type Dimension = number | string;

export interface OnnxTensor {
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

export interface OnnxValue {
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly Dimension[];
}

export type OnnxAttribute = number | readonly number[];

export interface OnnxNode {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: ReadonlyMap<string, OnnxAttribute>;
}

export interface OnnxGraph {
  readonly name: string;
  readonly nodes: readonly OnnxNode[];
  readonly constants: readonly OnnxTensor[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

/** Operator set 18: axes of reductions and sizes of splits are inputs. */
export const OPSET = 18;
/** Format 8 is the one that came with operator set 18. */
const FORMAT = 8;

export const onnxBytes = (graph: OnnxGraph): Uint8Array =>
  MODEL.encode({
    irVersion: FORMAT,
    producer: "orbweaver",
    graph: [graphBytes(graph)],
    opsets: [OPSET_ID.encode({ domain: "", version: OPSET })],
  });

const graphBytes = ({ name, nodes, constants, inputs, outputs }: OnnxGraph): Uint8Array =>
  GRAPH.encode({
    nodes: nodes.map(nodeBytes),
    name,
    initializers: constants.map(tensorBytes),
    inputs: inputs.map(valueBytes),
    outputs: outputs.map(valueBytes),
  });

const nodeBytes = ({ op, inputs, outputs, attributes }: OnnxNode, index: number): Uint8Array =>
  NODE.encode({
    inputs,
    outputs,
    name: `${op}_${String(index)}`,
    op,
    attributes: [...attributes].map(([name, value]) =>
      typeof value === "number"
        ? ATTRIBUTE.encode({ name, int: value, type: ATTRIBUTE_TYPES.int })
        : ATTRIBUTE.encode({ name, ints: value, type: ATTRIBUTE_TYPES.ints }),
    ),
  });

const tensorBytes = ({ name, type, shape, values }: OnnxTensor): Uint8Array =>
  TENSOR.encode({ dims: shape, type: typeCode(type), name, raw: rawBytes(type, values) });

/** Little-endian on every machine, as the format requires. */
function rawBytes(type: ElementType, values: readonly number[]): Uint8Array {
  const width = type === "float32" ? 4 : 8;
  const view = new DataView(new ArrayBuffer(values.length * width));
  values.forEach((value, index) => {
    if (type === "float32") view.setFloat32(index * width, value, true);
    else if (type === "float64") view.setFloat64(index * width, value, true);
    else view.setBigInt64(index * width, BigInt(value), true);
  });
  return new Uint8Array(view.buffer);
}

const valueBytes = ({ name, type, shape }: OnnxValue): Uint8Array => {
  const dims = shape.map((size) =>
    DIMENSION.encode(typeof size === "number" ? { value: size } : { name: size }),
  );
  const tensor = TENSOR_TYPE.encode({ element: typeCode(type), shape: SHAPE.encode({ dims }) });
  return VALUE_INFO.encode({ name, type: TYPE.encode({ tensor }) });
};
