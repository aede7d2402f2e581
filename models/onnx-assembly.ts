/**
 * @file Writes an ONNX model of operators and parameters that were read from another one, each with the bytes it was read from.
 *
 * The header (version, operator sets, functions) is that of the original, so the parts of a model mean what the whole one means.
 * An output needs no type: onnxruntime infers what the file does not say.
 */

import type { OnnxModel, OnnxOperator, OnnxParameter } from "./onnx-model.ts";
import { bytesField, joinBytes, textField, varintField, wireFields } from "./protobuf-wire.ts";
import { typeCode, type OnnxType } from "./onnx-type.ts";

export interface OnnxAssembly {
  readonly name: string;
  readonly operators: readonly OnnxOperator[];
  readonly parameters: readonly OnnxParameter[];
  /** ValueInfoProtos, see `portBytes`. */
  readonly inputs: readonly Uint8Array[];
  readonly outputs: readonly Uint8Array[];
}

/** GraphProto: 1 node, 2 name, 5 initializer, 11 input, 12 output, 15 sparse_initializer; ModelProto: 7 graph. */
export function assembledBytes(model: Pick<OnnxModel, "header">, graph: OnnxAssembly): Uint8Array {
  const body = joinBytes([
    ...graph.operators.map(({ bytes }) => bytesField(1, bytes)),
    textField(2, graph.name),
    ...graph.parameters.map(({ bytes, isSparse }) => bytesField(isSparse ? 15 : 5, bytes)),
    ...graph.inputs.map((port) => bytesField(11, port)),
    ...graph.outputs.map((port) => bytesField(12, port)),
  ]);
  return joinBytes([...model.header, bytesField(7, body)]);
}

/** A ValueInfoProto: 1 name, 2 type; TypeProto: 1 tensor; Tensor: 1 elem_type, 2 shape; Dimension: 1 value, 2 name. */
export function portBytes(
  name: string,
  type?: OnnxType,
  shape?: readonly (number | string)[],
): Uint8Array {
  if (type === undefined) return textField(1, name);
  const dimensions = shape?.map((size) =>
    bytesField(
      1,
      typeof size === "number" ? varintField(1, size) : size === "?" ? EMPTY : textField(2, size),
    ),
  );
  const tensor = joinBytes([
    varintField(1, typeCode(type)),
    ...(dimensions === undefined ? [] : [bytesField(2, joinBytes(dimensions))]),
  ]);
  return joinBytes([textField(1, name), bytesField(2, bytesField(1, tensor))]);
}

const EMPTY = new Uint8Array(0);

/** The operator under another name. NodeProto: 3 name. */
export function renamed(operator: OnnxOperator, name: string): OnnxOperator {
  const rest = wireFields(operator.bytes).filter(({ field }) => field !== 3);
  return { ...operator, bytes: joinBytes([...rest.map(({ raw }) => raw), textField(3, name)]) };
}
