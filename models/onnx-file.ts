/**
 * @file Writes an ONNX model as bytes: the protobuf messages ModelProto, GraphProto, NodeProto, TensorProto and the value types.
 *
 * Only what our graphs use (float tensors, int64 constants, integer attributes); field numbers are those of onnx.proto, which
 * never change. Fields are written in the order of their numbers, so the same graph gives the same bytes.
 */

import { bytesField, joinBytes, textField, varintField } from "./protobuf-wire.ts";

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

export function onnxBytes(graph: OnnxGraph): Uint8Array {
  return joinBytes([
    varintField(1, FORMAT),
    textField(2, "orbweaver"),
    bytesField(7, graphBytes(graph)),
    bytesField(8, joinBytes([textField(1, ""), varintField(2, OPSET)])),
  ]);
}

const graphBytes = ({ name, nodes, constants, inputs, outputs }: OnnxGraph): Uint8Array =>
  joinBytes([
    ...nodes.map((node, index) => bytesField(1, nodeBytes(node, index))),
    textField(2, name),
    ...constants.map((tensor) => bytesField(5, tensorBytes(tensor))),
    ...inputs.map((value) => bytesField(11, valueBytes(value))),
    ...outputs.map((value) => bytesField(12, valueBytes(value))),
  ]);

const nodeBytes = ({ op, inputs, outputs, attributes }: OnnxNode, index: number): Uint8Array =>
  joinBytes([
    ...inputs.map((name) => textField(1, name)),
    ...outputs.map((name) => textField(2, name)),
    textField(3, `${op}_${String(index)}`),
    textField(4, op),
    ...[...attributes].map(([name, value]) => bytesField(5, attributeBytes(name, value))),
  ]);

/** AttributeProto.type: 2 = INT, 7 = INTS. */
const attributeBytes = (name: string, value: OnnxAttribute): Uint8Array =>
  typeof value === "number"
    ? joinBytes([textField(1, name), varintField(3, value), varintField(20, 2)])
    : joinBytes([
        textField(1, name),
        ...value.map((one) => varintField(8, one)),
        varintField(20, 7),
      ]);

/** TensorProto.DataType. */
const TYPE_CODES = { float32: 1, int64: 7, float64: 11 } as const;

const tensorBytes = ({ name, type, shape, values }: OnnxTensor): Uint8Array =>
  joinBytes([
    ...shape.map((size) => varintField(1, size)),
    varintField(2, TYPE_CODES[type]),
    textField(8, name),
    bytesField(9, rawBytes(type, values)),
  ]);

/** Little-endian whatever the machine, as the format asks. */
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
  const dimensions = shape.map((size) =>
    bytesField(1, typeof size === "number" ? varintField(1, size) : textField(2, size)),
  );
  const tensor = joinBytes([
    varintField(1, TYPE_CODES[type]),
    bytesField(2, joinBytes(dimensions)),
  ]);
  return joinBytes([textField(1, name), bytesField(2, bytesField(1, tensor))]);
};
