/**
 * @file Reads an ONNX model: its operators with their attributes, its parameters, its inputs and outputs.
 *
 * Only what planning and cutting look at is decoded. Every operator and parameter keeps the bytes it was read from, so a
 * part of a model keeps every attribute, known or not. Control flow (`If`, `Loop`)
 * is one operator that also reads what its inner graphs take from outside. A `Constant` is a parameter like any other.
 * Parameters in files beside the model are refused.
 * Cost: one pass; the bytes are views of the file. The messages are in `onnx-messages.ts`.
 */

import {
  ATTRIBUTE,
  ATTRIBUTE_TYPES,
  DIMENSION,
  EXTERNAL,
  GRAPH,
  GRAPH_FIELD,
  MODEL,
  NODE,
  OPSET,
  SHAPE,
  SPARSE_TENSOR,
  TENSOR,
  TENSOR_NAME_FIELD,
  TENSOR_TYPE,
  TYPE,
  VALUE_INFO,
} from "./onnx-messages.ts";
import { fieldsBut, type Int64 } from "./protobuf-message.ts";
import { tensorBytes, typeCode, typeNamed, type OnnxType } from "./onnx-type.ts";

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
  /** The file. */
  readonly bytes: Uint8Array;
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
type OnnxAttributeValue = number | string | readonly number[] | readonly string[];

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

type ReadOnnx =
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
  const file = MODEL.decode(bytes, "the file");
  const [graphBytes] = file.graph;
  if (graphBytes === undefined || file.graph.length > 1) {
    throw new RangeError(
      "it holds no graph. Export the model as one .onnx file (torch.onnx.export, or optimum-cli export onnx).",
    );
  }
  const graph = GRAPH.decode(graphBytes, "the graph");
  const nodes = graph.nodes.map(nodeOf);
  const constants = nodes.map(constantOf);
  const parameters = [
    ...graph.initializers.map(parameterOf),
    ...graph.sparseInitializers.map(sparseOf),
    ...constants.filter((constant) => constant !== undefined),
  ];
  const names = new Set(parameters.map(({ name }) => name));
  const operators = identified(
    nodes.filter((_, index) => constants[index] === undefined).map(operatorOf),
  );
  const inputs = graph.inputs.map(portOf).filter(({ name }) => !names.has(name));
  const outputs = graph.outputs.map(portOf);
  checkOrder({ operators, parameters, inputs, outputs });
  const read = new Set([
    ...operators.flatMap((operator) => [...operator.inputs, ...operator.captures]),
    ...outputs.map(({ name }) => name),
  ]);
  const noted = [...graph.valueInfos.map(portOf), ...inputs, ...outputs];
  return {
    name: graph.name,
    opsets: new Map(file.opsets.map(opsetOf)),
    operators,
    parameters: parameters.filter(({ name }) => read.has(name)),
    inputs,
    outputs,
    noted: new Map(noted.map((port) => [port.name, port])),
    header: fieldsBut(bytes, GRAPH_FIELD),
    bytes,
  };
}

function opsetOf(bytes: Uint8Array): readonly [domain: string, version: number] {
  const opset = OPSET.decode(bytes, "an operator set");
  return [opset.domain, Object.hasOwn(opset, "version") ? opset.version.toNumber() : 1];
}

type Attribute = ReturnType<typeof ATTRIBUTE.decode>;

interface Node extends ReturnType<typeof NODE.decode> {
  readonly bytes: Uint8Array;
}

const nodeOf = (bytes: Uint8Array): Node =>
  Object.assign(NODE.decode(bytes, "an operator"), { bytes });

const attributesOf = ({ attributes }: Node): readonly Attribute[] =>
  attributes.map((bytes) => ATTRIBUTE.decode(bytes, "an attribute"));

function operatorOf(node: Node): OnnxOperator {
  const { name, op, domain, inputs, outputs, bytes } = node;
  if (op === "") throw new RangeError(`an operator has no type, at ${name || "the start"}`);
  const attributes = attributesOf(node);
  for (const { tensor, tensors } of attributes)
    for (const each of [tensor, ...tensors]) refuseOutside(TENSOR.decode(each, "a tensor"));
  return {
    id: name,
    op,
    domain,
    inputs,
    outputs,
    captures: [...new Set(attributes.flatMap(innerGraphs).flatMap(freeNames))],
    attributes: new Map(
      attributes.flatMap((attribute) => {
        const value = attributeValue(attribute);
        return value === undefined ? [] : [[attribute.name, value] as const];
      }),
    ),
    bytes,
  };
}

function attributeValue(attribute: Attribute): OnnxAttributeValue | undefined {
  switch (attribute.type) {
    case ATTRIBUTE_TYPES.float:
      return attribute.float;
    case ATTRIBUTE_TYPES.int:
      return attribute.int.toNumber();
    case ATTRIBUTE_TYPES.string:
      return attribute.string;
    case ATTRIBUTE_TYPES.floats:
      return attribute.floats;
    case ATTRIBUTE_TYPES.ints:
      return attribute.ints.map((whole) => whole.toNumber());
    case ATTRIBUTE_TYPES.strings:
      return attribute.strings;
    default:
      return undefined;
  }
}

const innerGraphs = (attribute: Attribute): readonly Uint8Array[] => [
  ...(Object.hasOwn(attribute, "graph") ? [attribute.graph] : []),
  ...attribute.graphs,
];

/** The names that a graph reads and does not make. */
function freeNames(bytes: Uint8Array): readonly string[] {
  const graph = GRAPH.decode(bytes, "an inner graph");
  const operators = graph.nodes.map((node) => operatorOf(nodeOf(node)));
  const portNames = (ports: readonly Uint8Array[]): readonly string[] =>
    ports.map((port) => VALUE_INFO.decode(port, "an input or output").name);
  const made = new Set([
    ...operators.flatMap(({ outputs }) => outputs),
    ...graph.initializers.map((tensor) => TENSOR.decode(tensor, "a parameter").name),
    ...portNames(graph.inputs),
  ]);
  const read = [
    ...operators.flatMap(({ inputs, captures }) => [...inputs, ...captures]),
    ...portNames(graph.outputs),
  ];
  return read.filter((name) => name !== "" && !made.has(name));
}

function parameterOf(bytes: Uint8Array): OnnxParameter {
  const tensor = TENSOR.decode(bytes, "a parameter");
  refuseOutside(tensor);
  const type = typeNamed(tensor.type);
  const shape = tensor.dims.map((size) => size.toNumber());
  const sizeBytes = tensorBytes(type, shape);
  return { name: tensor.name, type, shape, sizeBytes, bytes, isSparse: false };
}

/** The tensor of a `Constant` under the name of its output; one of sparse values or of texts stays an operator. */
function constantOf(node: Node): OnnxParameter | undefined {
  if (!["", "ai.onnx"].includes(node.domain) || node.op !== "Constant") return undefined;
  const [attribute] = attributesOf(node);
  const [name = ""] = node.outputs;
  const bytes = attribute && constantBytes(attribute, name);
  return bytes && parameterOf(bytes);
}

/** A TensorProto of this name; undefined when the attribute holds none. */
function constantBytes(attribute: Attribute, name: string): Uint8Array | undefined {
  switch (attribute.name) {
    case "value": {
      if (!Object.hasOwn(attribute, "tensor")) return undefined;
      return TENSOR.encode({ name }, fieldsBut(attribute.tensor, TENSOR_NAME_FIELD));
    }
    case "value_float":
      return floatTensor(name, [], [attribute.float]);
    case "value_floats":
      return floatTensor(name, [attribute.floats.length], attribute.floats);
    case "value_int":
      return wholeTensor(name, [], [attribute.int]);
    case "value_ints":
      return wholeTensor(name, [attribute.ints.length], attribute.ints);
    default:
      return undefined;
  }
}

function floatTensor(name: string, dims: readonly number[], values: readonly number[]): Uint8Array {
  const raw = new Uint8Array(Float32Array.from(values).buffer);
  return TENSOR.encode({ dims, type: typeCode("float32"), name, raw });
}

function wholeTensor(name: string, dims: readonly number[], values: readonly Int64[]): Uint8Array {
  const raw = new Uint8Array(BigInt64Array.from(values, (value) => BigInt(String(value))).buffer);
  return TENSOR.encode({ dims, type: typeCode("int64"), name, raw });
}

function sparseOf(bytes: Uint8Array): OnnxParameter {
  const sparse = SPARSE_TENSOR.decode(bytes, "a sparse parameter");
  const { name, type } = parameterOf(sparse.values);
  const shape = sparse.dims.map((size) => size.toNumber());
  return { name, type, shape, sizeBytes: bytes.length, bytes, isSparse: true };
}

function refuseOutside(tensor: ReturnType<typeof TENSOR.decode>): void {
  if (tensor.location !== EXTERNAL && tensor.externalData.length === 0) return;
  throw new RangeError(
    `the parameter ${tensor.name} lies in another file. Save the model as one file: onnx.save(onnx.load(…), …) up to 2 GB.`,
  );
}

function portOf(bytes: Uint8Array): OnnxPort {
  const what = "an input or output";
  const info = VALUE_INFO.decode(bytes, what);
  const type = TYPE.decode(info.type, what);
  if (!Object.hasOwn(type, "tensor"))
    return { name: info.name, type: undefined, shape: undefined, bytes };
  const tensor = TENSOR_TYPE.decode(type.tensor, what);
  const hasShape = Object.hasOwn(tensor, "shape");
  return {
    name: info.name,
    type: typeNamed(tensor.element),
    shape: hasShape ? SHAPE.decode(tensor.shape, what).dims.map(dimensionOf) : undefined,
    bytes,
  };
}

function dimensionOf(bytes: Uint8Array): number | string {
  const dimension = DIMENSION.decode(bytes, "a dimension");
  const size = Object.hasOwn(dimension, "value") ? dimension.value.toNumber() : -1;
  return size >= 0 ? size : dimension.name || "?";
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
