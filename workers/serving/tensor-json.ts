/**
 * @file Tensors in requests and answers: JSON in the format of the Open Inference Protocol (KServe's and Triton's V2).
 *
 * A tensor is `{name, shape, datatype, data}` with data as one flat list or nested lists. Inputs are untrusted, so each number
 * is checked against the model's input; problems are reported by name and place.
 */

import type { SessionPort, TensorData, TensorValue } from "../../models/onnx/onnx-session.ts";
import type { OnnxType } from "../../models/onnx/onnx-type.ts";

/** The protocol's names; a type without one can be no input or output of a service. */
const DATATYPES: readonly (readonly [OnnxType, string])[] = [
  ["bool", "BOOL"],
  ["uint8", "UINT8"],
  ["uint16", "UINT16"],
  ["uint32", "UINT32"],
  ["uint64", "UINT64"],
  ["int8", "INT8"],
  ["int16", "INT16"],
  ["int32", "INT32"],
  ["int64", "INT64"],
  ["float32", "FP32"],
  ["float64", "FP64"],
];

export const datatypeOf = (type: OnnxType): string | undefined =>
  DATATYPES.find(([known]) => known === type)?.[1];

export type ReadTensor =
  | { readonly kind: "read"; readonly tensor: TensorValue }
  | { readonly kind: "refused"; readonly message: string };

/** One entry of a request's `inputs`, for the input that it names. */
export function readTensor(
  port: SessionPort,
  entry: Readonly<Record<string, unknown>>,
): ReadTensor {
  const refused = (why: string): ReadTensor => ({
    kind: "refused",
    message: `input ${port.name}: ${why}`,
  });
  const { datatype, shape, data } = entry;
  const wanted = datatypeOf(port.type);
  if (wanted === undefined) return refused(`a tensor of ${port.type} cannot be sent as JSON`);
  if (datatype !== undefined && datatype !== wanted) {
    return refused(`its datatype is ${shown(datatype)}, but the model takes ${wanted}`);
  }
  if (!Array.isArray(shape) || !shape.every(isSize)) {
    return refused(`its shape is not a list of whole numbers up to ${MOST_SIZE}`);
  }
  const misfit = misfitOf(port, shape);
  if (misfit !== undefined) return refused(misfit);
  // Deeper lists stay, and are no numbers.
  const numbers: unknown = Array.isArray(data) ? data.flat(shape.length) : data;
  if (!Array.isArray(numbers)) return refused("its data is not a list");
  const count = shape.reduce((product, size) => product * size, 1);
  if (numbers.length !== count) {
    return refused(`its data has ${numbers.length} numbers, but its shape needs ${count}`);
  }
  const bad = numbers.findIndex((value) => !isOfType(port.type, value));
  if (bad >= 0) return refused(`${shown(numbers[bad])} at ${bad} is not a ${wanted}`);
  return {
    kind: "read",
    tensor: { type: port.type, shape, data: dataOf(port.type, numbers.map(Number)) },
  };
}

/** Numbers that JSON cannot express become null, as JavaScript writes them. */
export function tensorEntry(name: string, { type, shape, data }: TensorValue): unknown {
  const numbers = [...data].map((value) => (type === "bool" ? Number(value) !== 0 : Number(value)));
  return { name, datatype: datatypeOf(type) ?? type.toUpperCase(), shape, data: numbers };
}

function misfitOf({ shape: wanted }: SessionPort, shape: readonly number[]): string | undefined {
  const fits =
    wanted.length === shape.length &&
    wanted.every((size, axis) => typeof size === "string" || size === shape[axis]);
  return fits
    ? undefined
    : `its shape is ${shownShape(shape)}, but the model takes ${shownShape(wanted)}`;
}

const SHOWN_AXES = 16;
const shownShape = (shape: readonly (number | string)[]): string =>
  shape.length <= SHOWN_AXES
    ? `[${shape.join(", ")}]`
    : `[${shape.slice(0, SHOWN_AXES).join(", ")}, … ${shape.length} axes]`;

/** Of one axis, as onnxruntime takes it. */
const MOST_SIZE = 2 ** 31 - 1;
const isSize = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MOST_SIZE;

/** Lowest and highest whole number of a type; of 64 bits, what a JSON number can hold without loss. */
const RANGES: ReadonlyMap<OnnxType, readonly [number, number]> = new Map([
  ["uint8", [0, 255]],
  ["uint16", [0, 65_535]],
  ["uint32", [0, 4_294_967_295]],
  ["uint64", [0, Number.MAX_SAFE_INTEGER]],
  ["int8", [-128, 127]],
  ["int16", [-32_768, 32_767]],
  ["int32", [-2_147_483_648, 2_147_483_647]],
  ["int64", [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER]],
]);

function isOfType(type: OnnxType, value: unknown): boolean {
  if (type === "bool") return typeof value === "boolean" || value === 0 || value === 1;
  if (typeof value !== "number") return false;
  const range = RANGES.get(type);
  if (range === undefined) return Number.isFinite(type === "float32" ? Math.fround(value) : value);
  return Number.isInteger(value) && value >= range[0] && value <= range[1];
}

/** `numbers` were checked before. */
function dataOf(type: OnnxType, numbers: readonly number[]): TensorData {
  switch (type) {
    case "float32":
      return Float32Array.from(numbers);
    case "float64":
      return Float64Array.from(numbers);
    case "int64":
      return BigInt64Array.from(numbers, BigInt);
    case "uint64":
      return BigUint64Array.from(numbers, BigInt);
    case "int32":
      return Int32Array.from(numbers);
    case "uint32":
      return Uint32Array.from(numbers);
    case "int16":
      return Int16Array.from(numbers);
    case "uint16":
      return Uint16Array.from(numbers);
    case "int8":
      return Int8Array.from(numbers);
    default:
      return Uint8Array.from(numbers);
  }
}

/** What is nested is named only: it may be deeper than the stack. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  return typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : String(value);
}
