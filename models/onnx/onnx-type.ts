/** @file The element types of ONNX tensors, by name and by their numbers in files, and how many bytes a tensor of them has. */

/** TensorProto.DataType, by number. */
const TYPES = [
  "undefined",
  "float32",
  "uint8",
  "int8",
  "uint16",
  "int16",
  "int32",
  "int64",
  "string",
  "bool",
  "float16",
  "float64",
  "uint32",
  "uint64",
  "complex64",
  "complex128",
  "bfloat16",
  "float8e4m3fn",
  "float8e4m3fnuz",
  "float8e5m2",
  "float8e5m2fnuz",
  "uint4",
  "int4",
  "float4e2m1",
] as const;
export type OnnxType = (typeof TYPES)[number];

/** A tensor as a run of the model made it. */
export interface ValueShape {
  readonly type: OnnxType;
  readonly shape: readonly number[];
  readonly sizeBytes: number;
}

const WIDTH_BITS: ReadonlyMap<OnnxType, number> = new Map<OnnxType, number>([
  ...(["complex128"] as const).map((type) => [type, 128] as const),
  ...(["int64", "float64", "uint64", "complex64"] as const).map((type) => [type, 64] as const),
  ...(["float32", "int32", "uint32"] as const).map((type) => [type, 32] as const),
  ...(["uint16", "int16", "float16", "bfloat16"] as const).map((type) => [type, 16] as const),
  ...(["uint4", "int4", "float4e2m1"] as const).map((type) => [type, 4] as const),
]);

/** Bytes of a tensor; texts are counted as if they had 8 bytes each. */
export function tensorBytes(type: OnnxType, shape: readonly number[]): number {
  const elements = shape.reduce((product, size) => product * size, 1);
  const bits = type === "string" ? 64 : (WIDTH_BITS.get(type) ?? 8);
  return Math.ceil((elements * bits) / 8);
}

export const typeNamed = (code: number): OnnxType => TYPES[code] ?? "undefined";

export const typeCode = (type: OnnxType): number => TYPES.indexOf(type);
