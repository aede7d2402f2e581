/**
 * @file The wire format of protobuf, read and written field by field: all that ONNX files need of it.
 *
 * A message is a row of fields, each a number, a wire type and a payload; what a field means is the affair of `onnx-file.ts`
 * (writing) and `onnx-model.ts` (reading). Payloads are views of the bytes that were read, so a model is never copied.
 * Reading costs one pass over the tags; lengths that point outside are refused with the place.
 */

export interface WireField {
  readonly field: number;
  /** The value of a varint, two's complement; 0 for other wire types. */
  readonly whole: bigint;
  /** The payload of a length-delimited or fixed field; empty for a varint. */
  readonly bytes: Uint8Array;
  /** The field with its tag, to be written elsewhere as it is. */
  readonly raw: Uint8Array;
  readonly wire: "varint" | "fixed64" | "bytes" | "fixed32";
}

const LONGEST_VARINT = 10;

/** The fields of a message in the order of the bytes. Throws a `RangeError` where they cannot be one. */
export function wireFields(message: Uint8Array): readonly WireField[] {
  const fields: WireField[] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let place = 0; place < LONGEST_VARINT; place += 1) {
      const byte = message[at];
      if (byte === undefined) throw new RangeError(`ends inside a number, at byte ${at}`);
      at += 1;
      value |= BigInt(byte & 127) << BigInt(7 * place);
      if (byte < 128) return value;
    }
    throw new RangeError(`has a number longer than ${LONGEST_VARINT} bytes before byte ${at}`);
  };
  const take = (length: number): Uint8Array => {
    if (length > message.length - at) {
      throw new RangeError(`needs ${length} bytes at byte ${at}, and has ${message.length - at}`);
    }
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const from = at;
    const tag = Number(varint());
    const common = { field: Math.floor(tag / 8), whole: 0n, bytes: EMPTY };
    const raw = (): Uint8Array => message.subarray(from, at);
    switch (tag % 8) {
      case 0: {
        const whole = BigInt.asIntN(64, varint());
        fields.push({ ...common, whole, raw: raw(), wire: "varint" });
        break;
      }
      case 1: {
        const bytes = take(8);
        fields.push({ ...common, bytes, raw: raw(), wire: "fixed64" });
        break;
      }
      case 2: {
        const bytes = take(Number(varint()));
        fields.push({ ...common, bytes, raw: raw(), wire: "bytes" });
        break;
      }
      case 5: {
        const bytes = take(4);
        fields.push({ ...common, bytes, raw: raw(), wire: "fixed32" });
        break;
      }
      default:
        throw new RangeError(`has a field of unknown wire type ${tag % 8} at byte ${from}`);
    }
  }
  return fields;
}

const EMPTY = new Uint8Array(0);

/** Numbers of a repeated field, packed or one by one. */
export function wholesOf(fields: readonly WireField[], field: number): readonly bigint[] {
  return fields
    .filter((each) => each.field === field)
    .flatMap((each) => (each.wire === "varint" ? [each.whole] : packedWholes(each.bytes)));
}

function packedWholes(bytes: Uint8Array): readonly bigint[] {
  const wholes: bigint[] = [];
  let value = 0n;
  let shift = 0n;
  for (const byte of bytes) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      wholes.push(BigInt.asIntN(64, value));
      value = 0n;
      shift = 0n;
    }
  }
  if (shift > 0n) throw new RangeError("ends inside a packed number");
  return wholes;
}

const TEXT = new TextDecoder();

export const textOf = (bytes: Uint8Array): string => TEXT.decode(bytes);

/** Little-endian float32, as all fixed 32-bit fields of ONNX are. */
export const floatOf = (bytes: Uint8Array, at = 0): number =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getFloat32(at, true);

/** Wire types: 0 = varint, 2 = length and bytes. */
export const varintField = (field: number, value: number | bigint): Uint8Array =>
  joinBytes([varintBytes(field * 8), varintBytes(value)]);
export const bytesField = (field: number, bytes: Uint8Array): Uint8Array =>
  joinBytes([varintBytes(field * 8 + 2), varintBytes(bytes.length), bytes]);
export const textField = (field: number, text: string): Uint8Array =>
  bytesField(field, new TextEncoder().encode(text));

/** Negative numbers are two's complement of 64 bits, ten bytes long. */
function varintBytes(value: number | bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

export function joinBytes(parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
