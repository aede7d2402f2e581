/**
 * @file Reads an ONNX model: its operators with their attributes, its parameters, its inputs and outputs.
 *
 * Only what planning and cutting look at is decoded. Every operator and parameter keeps the bytes it was read from, so what is
 * cut out of a model is exactly what was in it, attributes that nobody here understands included. Control flow (`If`, `Loop`)
 * is one operator that also reads what its inner graphs take from outside. A `Constant` is a parameter like any other.
 * Parameters in files beside the model are refused.
 * Cost: one pass; payloads are views. Field numbers are those of onnx.proto, which never change.
 */

import {
  bytesField,
  floatOf,
  joinBytes,
  textField,
  textOf,
  varintField,
  wholesOf,
  wireFields,
  type WireField,
} from "./protobuf-wire.ts";
import { tensorBytes, typeNamed, type OnnxType } from "./onnx-type.ts";

export interface OnnxModel {
  readonly name: string;
  /** By domain; "" is ONNX's own. */
  readonly opsets: ReadonlyMap<string, number>;
  /** In an order in which they can run. */
  readonly operators: readonly OnnxOperator[];
  /** Those that something reads. */
  readonly parameters: readonly OnnxParameter[];
  /** Without those that are parameters with a default. */
  readonly inputs: readonly OnnxPort[];
  readonly outputs: readonly OnnxPort[];
  /** What the file says about values between operators. */
  readonly noted: ReadonlyMap<string, OnnxPort>;
  /** Everything of the file but the graph: version, operator sets, functions. */
  readonly header: readonly Uint8Array[];
}

export interface OnnxOperator {
  /** Unique, and the operator's own name where it has one that is. */
  readonly id: string;
  readonly op: string;
  readonly domain: string;
  /** What it reads; "" for one that is left out. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** What inner graphs of it read from outside. */
  readonly captures: readonly string[];
  readonly attributes: ReadonlyMap<string, OnnxAttributeValue>;
  /** The NodeProto. */
  readonly bytes: Uint8Array;
}

/** Tensors, graphs and what else there is are kept in the operator's bytes only. */
export type OnnxAttributeValue = number | string | readonly number[] | readonly string[];

export interface OnnxParameter {
  readonly name: string;
  readonly type: OnnxType;
  readonly shape: readonly number[];
  readonly sizeBytes: number;
  /** The TensorProto or SparseTensorProto. */
  readonly bytes: Uint8Array;
  readonly isSparse: boolean;
}

export interface OnnxPort {
  readonly name: string;
  /** Undefined for what is no tensor. */
  readonly type: OnnxType | undefined;
  /** A dimension that the file leaves open has its name, or "?". Undefined when not even the rank is said. */
  readonly shape: readonly (number | string)[] | undefined;
  /** The ValueInfoProto. */
  readonly bytes: Uint8Array;
}

export type ReadOnnx =
  | { readonly kind: "read"; readonly model: OnnxModel }
  | { readonly kind: "refused"; readonly message: string };

/** `file` is what messages call the model. */
export function readOnnxModel(bytes: Uint8Array, file: string): ReadOnnx {
  try {
    return { kind: "read", model: modelOf(bytes) };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return {
      kind: "refused",
      message: `${file} is no ONNX model that can be used: ${error.message}`,
    };
  }
}

function modelOf(bytes: Uint8Array): OnnxModel {
  const fields = within("the file", () => wireFields(bytes));
  const graphs = fields.filter(({ field }) => field === 7);
  const [graph] = graphs;
  if (graph === undefined || graph.wire !== "bytes" || graphs.length > 1) {
    throw new RangeError(
      "it holds no graph. Export the model as one .onnx file (torch.onnx.export, or optimum-cli export onnx).",
    );
  }
  const opsets = new Map(
    fields
      .filter(({ field }) => field === 8)
      .map((each) => {
        const opset = wireFields(each.bytes);
        return [textIn(opset, 1), Number(wholesOf(opset, 2)[0] ?? 1n)] as const;
      }),
  );
  const parts = within("the graph", () => wireFields(graph.bytes));
  const parameters = [
    ...parts.filter(({ field }) => field === 5).map(({ bytes: tensor }) => parameterOf(tensor)),
    ...parts.filter(({ field }) => field === 15).map(({ bytes: tensor }) => sparseOf(tensor)),
  ];
  const nodes = parts.filter(({ field }) => field === 1).map(({ bytes: node }) => node);
  const constants = nodes.map(constantOf);
  parameters.push(...constants.filter((constant) => constant !== undefined));
  const names = new Set(parameters.map(({ name }) => name));
  const ports = (field: number): readonly OnnxPort[] =>
    parts.filter((part) => part.field === field).map((part) => portOf(part.bytes));
  const operators = identified(
    nodes.filter((_, index) => constants[index] === undefined).map(operatorOf),
  );
  const inputs = ports(11).filter(({ name }) => !names.has(name));
  const outputs = ports(12);
  checkOrder({ operators, parameters, inputs, outputs });
  const read = new Set([
    ...operators.flatMap((operator) => [...operator.inputs, ...operator.captures]),
    ...outputs.map(({ name }) => name),
  ]);
  return {
    name: textIn(parts, 2),
    opsets,
    operators,
    parameters: parameters.filter(({ name }) => read.has(name)),
    inputs,
    outputs,
    noted: new Map([...ports(13), ...inputs, ...outputs].map((port) => [port.name, port])),
    header: fields.filter(({ field }) => field !== 7).map(({ raw }) => raw),
  };
}

/** NodeProto: 1 input, 2 output, 3 name, 4 op_type, 5 attribute, 7 domain. */
function operatorOf(bytes: Uint8Array): OnnxOperator {
  const fields = within("an operator", () => wireFields(bytes));
  const op = textIn(fields, 4);
  if (op === "")
    throw new RangeError(`an operator has no type, at ${textIn(fields, 3) || "the start"}`);
  const attributes = fields
    .filter(({ field }) => field === 5)
    .map(({ bytes: one }) => wireFields(one));
  return {
    id: textIn(fields, 3),
    op,
    domain: textIn(fields, 7),
    inputs: textsIn(fields, 1),
    outputs: textsIn(fields, 2),
    captures: [...new Set(attributes.flatMap(innerGraphs).flatMap(freeNames))],
    attributes: new Map(
      attributes.flatMap((one) => {
        refuseOutside(one.filter(({ field }) => field === 5 || field === 10));
        const value = attributeValue(one);
        return value === undefined ? [] : [[textIn(one, 1), value] as const];
      }),
    ),
    bytes,
  };
}

/** AttributeProto: 20 type, 2 f, 3 i, 4 s, 5 t, 6 g, 7 floats, 8 ints, 9 strings, 10 tensors, 11 graphs. */
function attributeValue(fields: readonly WireField[]): OnnxAttributeValue | undefined {
  const number = fields.find(({ field }) => field === 2);
  switch (Number(wholesOf(fields, 20)[0] ?? 0n)) {
    case 1:
      return number === undefined ? 0 : floatOf(number.bytes);
    case 2:
      return Number(wholesOf(fields, 3)[0] ?? 0n);
    case 3:
      return textIn(fields, 4);
    case 6:
      return fields
        .filter(({ field }) => field === 7)
        .flatMap(({ bytes }) =>
          Array.from({ length: Math.floor(bytes.length / 4) }, (_, at) => floatOf(bytes, 4 * at)),
        );
    case 7:
      return wholesOf(fields, 8).map(Number);
    case 8:
      return textsIn(fields, 9);
    default:
      return undefined;
  }
}

const innerGraphs = (attribute: readonly WireField[]): readonly Uint8Array[] =>
  attribute.filter(({ field }) => field === 6 || field === 11).map(({ bytes }) => bytes);

/** What a graph reads and does not make: GraphProto 1 node, 5 initializer, 11 input, 12 output. */
function freeNames(graph: Uint8Array): readonly string[] {
  const fields = wireFields(graph);
  const operators = fields.filter(({ field }) => field === 1).map(({ bytes }) => operatorOf(bytes));
  const made = new Set([
    ...operators.flatMap(({ outputs }) => outputs),
    ...fields.filter(({ field }) => field === 5).map(({ bytes }) => textIn(wireFields(bytes), 8)),
    ...fields.filter(({ field }) => field === 11).map(({ bytes }) => textIn(wireFields(bytes), 1)),
  ]);
  const read = [
    ...operators.flatMap(({ inputs, captures }) => [...inputs, ...captures]),
    ...fields.filter(({ field }) => field === 12).map(({ bytes }) => textIn(wireFields(bytes), 1)),
  ];
  return read.filter((name) => name !== "" && !made.has(name));
}

/** TensorProto: 1 dims, 2 data_type, 8 name, 13 external_data, 14 data_location. */
function parameterOf(bytes: Uint8Array): OnnxParameter {
  const fields = within("a parameter", () => wireFields(bytes));
  refuseOutside([{ bytes }]);
  const type = typeNamed(wholesOf(fields, 2)[0]);
  const shape = wholesOf(fields, 1).map(Number);
  const sizeBytes = tensorBytes(type, shape);
  return { name: textIn(fields, 8), type, shape, sizeBytes, bytes, isSparse: false };
}

/** The tensor of a `Constant` under the name of its output; one of sparse values or of texts stays an operator. */
function constantOf(node: Uint8Array): OnnxParameter | undefined {
  const fields = within("an operator", () => wireFields(node));
  const isOwn = ["", "ai.onnx"].includes(textIn(fields, 7));
  if (!isOwn || textIn(fields, 4) !== "Constant") return undefined;
  const [attribute] = fields
    .filter(({ field }) => field === 5)
    .map(({ bytes }) => wireFields(bytes));
  const tensor = attribute && tensorFields(attribute);
  const name = textField(8, textIn(fields, 2));
  return tensor && parameterOf(joinBytes([...tensor, name]));
}

/** TensorProto: 1 dims, 2 data_type (1 float32, 7 int64), 4 float_data, 7 int64_data. */
function tensorFields(attribute: readonly WireField[]): readonly Uint8Array[] | undefined {
  const value = attributeValue(attribute);
  const numbers = typeof value === "number" ? [value] : value;
  const dims = typeof value === "number" ? [] : [varintField(1, numbers?.length ?? 0)];
  switch (textIn(attribute, 1)) {
    case "value":
      return inner(attribute, 5)
        ?.filter(({ field }) => field !== 8)
        .map(({ raw }) => raw);
    case "value_float":
    case "value_floats": {
      const floats = Float32Array.from(numbers ?? [], Number);
      return [...dims, varintField(2, 1), bytesField(4, new Uint8Array(floats.buffer))];
    }
    case "value_int":
    case "value_ints": {
      const wholes = wholesOf(attribute, 3).concat(wholesOf(attribute, 8));
      return [...dims, varintField(2, 7), ...wholes.map((whole) => varintField(7, whole))];
    }
    default:
      return undefined;
  }
}

/** SparseTensorProto: 1 values (named), 2 indices, 3 dims. */
function sparseOf(bytes: Uint8Array): OnnxParameter {
  const fields = wireFields(bytes);
  const values = fields.find(({ field }) => field === 1);
  const { name, type } = parameterOf(values?.bytes ?? new Uint8Array());
  const shape = wholesOf(fields, 3).map(Number);
  return { name, type, shape, sizeBytes: bytes.length, bytes, isSparse: true };
}

function refuseOutside(tensors: readonly { readonly bytes: Uint8Array }[]): void {
  for (const { bytes } of tensors) {
    const fields = wireFields(bytes);
    if (wholesOf(fields, 14)[0] !== 1n && !fields.some(({ field }) => field === 13)) continue;
    throw new RangeError(
      `the parameter ${textIn(fields, 8)} lies in another file. Save the model as one file: onnx.save(onnx.load(…), …) up to 2 GB.`,
    );
  }
}

/** ValueInfoProto: 1 name, 2 type; TypeProto: 1 tensor; Tensor: 1 elem_type, 2 shape; Dimension: 1 value, 2 name. */
function portOf(bytes: Uint8Array): OnnxPort {
  const fields = within("an input or output", () => wireFields(bytes));
  const tensor = inner(inner(fields, 2), 1);
  const shape = tensor?.find(({ field }) => field === 2);
  const dimensions = wireFields(shape?.bytes ?? new Uint8Array());
  return {
    name: textIn(fields, 1),
    type: tensor && typeNamed(wholesOf(tensor, 1)[0]),
    shape: shape && dimensions.map(({ bytes: one }) => dimensionOf(wireFields(one))),
    bytes,
  };
}

function dimensionOf(fields: readonly WireField[]): number | string {
  const [size] = wholesOf(fields, 1);
  if (size !== undefined && size >= 0n) return Number(size);
  return textIn(fields, 2) || "?";
}

function inner(
  fields: readonly WireField[] | undefined,
  field: number,
): readonly WireField[] | undefined {
  const found = fields?.find((each) => each.field === field);
  return found && wireFields(found.bytes);
}

/** Operators without a name, or with one that another has, are called after their type and place. */
function identified(operators: readonly OnnxOperator[]): readonly OnnxOperator[] {
  const count = new Map<string, number>();
  for (const { id } of operators) count.set(id, (count.get(id) ?? 0) + 1);
  return operators.map((operator, place) =>
    operator.id !== "" && count.get(operator.id) === 1
      ? operator
      : { ...operator, id: `${operator.id || operator.op}#${place}` },
  );
}

/** Everything that is read was made before, and by one only. */
function checkOrder(
  model: Pick<OnnxModel, "operators" | "parameters" | "inputs" | "outputs">,
): void {
  const { operators, parameters, inputs, outputs } = model;
  const made = new Set([...parameters, ...inputs].map(({ name }) => name));
  for (const { id, op, inputs: reads, captures, outputs: makes } of operators) {
    const missing = [...reads, ...captures].find((name) => name !== "" && !made.has(name));
    if (missing !== undefined) {
      throw new RangeError(
        `${op} ${id} reads ${missing}, which nothing before it makes. Export the model again, its operators in order.`,
      );
    }
    for (const name of makes) {
      if (name !== "" && made.has(name))
        throw new RangeError(`${op} ${id} makes ${name} a second time`);
      made.add(name);
    }
  }
  const missing = outputs.find(({ name }) => !made.has(name));
  if (missing !== undefined) throw new RangeError(`its output ${missing.name} is made by nothing`);
  if (outputs.length === 0) throw new RangeError("it has no output");
}

const textIn = (fields: readonly WireField[], field: number): string =>
  textsIn(fields, field)[0] ?? "";
const textsIn = (fields: readonly WireField[], field: number): readonly string[] =>
  fields.filter((each) => each.field === field).map(({ bytes }) => textOf(bytes));

function within<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof RangeError ? new RangeError(`${what} ${error.message}`) : error;
  }
}
