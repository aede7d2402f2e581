/** @file Joins tensors of several requests along their first axis, and splits them again. */

import type { TensorData, TensorValue } from "../../models/onnx/onnx-session.ts";

/** All of one type and of equal shape behind the first axis; at least one. */
export function joinedRows(tensors: readonly TensorValue[]): TensorValue | undefined {
  const [first] = tensors;
  if (first === undefined || tensors.length === 1) return first;
  const rows = tensors.reduce((sum, { shape }) => sum + (shape[0] ?? 0), 0);
  const joined = emptyLike(
    first.data,
    tensors.reduce((sum, { data }) => sum + data.length, 0),
  );
  const bytes = bytesOf(joined);
  let at = 0;
  for (const { data } of tensors) {
    bytes.set(bytesOf(data), at);
    at += data.byteLength;
  }
  return { type: first.type, shape: [rows, ...first.shape.slice(1)], data: joined };
}

/** The pieces of `counts` rows each, copies of their own; the counts sum to the rows. */
export function partedRows(tensor: TensorValue, counts: readonly number[]): readonly TensorValue[] {
  if (counts.length === 1) return [tensor];
  const { type, shape, data } = tensor;
  const width = data.length / (shape[0] ?? 1);
  let row = 0;
  return counts.map((count) => {
    const piece = emptyLike(data, count * width);
    const from = row * width * data.BYTES_PER_ELEMENT;
    bytesOf(piece).set(bytesOf(data).subarray(from, from + piece.byteLength));
    row += count;
    return { type, shape: [count, ...shape.slice(1)], data: piece };
  });
}

const bytesOf = ({ buffer, byteOffset, byteLength }: TensorData): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

function emptyLike(data: TensorData, length: number): TensorData {
  if (data instanceof Float32Array) return new Float32Array(length);
  if (data instanceof Float64Array) return new Float64Array(length);
  if (data instanceof BigInt64Array) return new BigInt64Array(length);
  if (data instanceof BigUint64Array) return new BigUint64Array(length);
  if (data instanceof Int32Array) return new Int32Array(length);
  if (data instanceof Uint32Array) return new Uint32Array(length);
  if (data instanceof Int16Array) return new Int16Array(length);
  if (data instanceof Uint16Array) return new Uint16Array(length);
  if (data instanceof Int8Array) return new Int8Array(length);
  return new Uint8Array(length);
}
