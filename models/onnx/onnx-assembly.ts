/**
 * @file Writes an ONNX model of operators and parameters that were read from another one, each with the bytes it was read from.
 *
 * The header (version, operator sets, functions) is that of the original, so the parts of a model mean what the whole one means.
 * An output needs no type: onnxruntime infers what the file does not say.
 */

import type { OnnxModel, OnnxOperator, OnnxParameter } from "./onnx-model.ts";
import {
  DIMENSION,
  GRAPH,
  MODEL,
  NODE,
  NODE_NAME_FIELD,
  SHAPE,
  TENSOR_TYPE,
  TYPE,
  VALUE_INFO,
} from "./onnx-messages.ts";
import { fieldsBut } from "./protobuf-message.ts";
import { typeCode, type OnnxType } from "./onnx-type.ts";

interface OnnxAssembly {
  readonly name: string;
  readonly operators: readonly OnnxOperator[];
  readonly parameters: readonly OnnxParameter[];
  /** ValueInfoProtos, see `portBytes`. */
  readonly inputs: readonly Uint8Array[];
  readonly outputs: readonly Uint8Array[];
}

export function assembledBytes(model: Pick<OnnxModel, "header">, parts: OnnxAssembly): Uint8Array {
  const { name, operators, parameters, inputs, outputs } = parts;
  const bytesOf = (isSparse: boolean): readonly Uint8Array[] =>
    parameters.filter((each) => each.isSparse === isSparse).map(({ bytes }) => bytes);
  const graph = GRAPH.encode({
    nodes: operators.map(({ bytes }) => bytes),
    name,
    initializers: bytesOf(false),
    inputs,
    outputs,
    sparseInitializers: bytesOf(true),
  });
  return MODEL.encode({ graph: [graph] }, model.header);
}

/** A ValueInfoProto. */
export function portBytes(
  name: string,
  type?: OnnxType,
  shape?: readonly (number | string)[],
): Uint8Array {
  if (type === undefined) return VALUE_INFO.encode({ name });
  return tensorPort(name, typeCode(type), shape);
}

function tensorPort(
  name: string,
  element: number,
  shape: readonly (number | string)[] | undefined,
): Uint8Array {
  const dims = shape?.map((size) =>
    DIMENSION.encode(
      typeof size === "number" ? { value: size } : size === "?" ? {} : { name: size },
    ),
  );
  const tensor = TENSOR_TYPE.encode({ element, ...(dims && { shape: SHAPE.encode({ dims }) }) });
  return VALUE_INFO.encode({ name, type: TYPE.encode({ tensor }) });
}

/** The operator under another name. */
export function renamed(operator: OnnxOperator, name: string): OnnxOperator {
  const rest = fieldsBut(operator.bytes, NODE_NAME_FIELD);
  return { ...operator, bytes: NODE.encode({ name }, rest) };
}
