/**
 * @file Protobuf messages from tables of the fields that are read or written; protobufjs does the wire format.
 *
 * A message inside another one is a field of bytes here, decoded when it is needed: its bytes are a view of the file, so nothing is
 * copied, and it can be written elsewhere as it is. Fields that a table does not name are skipped.
 */

import protobuf from "protobufjs/light.js";

/** A whole number of 64 bits. */
export interface Int64 {
  toNumber(): number;
  toString(): string;
}

/** `read` and `written` only carry types; they are never set. */
export interface Field<Read, Written = Read> {
  readonly id: number;
  readonly type: string;
  readonly rule: "optional" | "repeated";
  readonly read?: Read;
  readonly written?: Written;
}
type Fields = Readonly<Record<string, Field<unknown>>>;

const field =
  <Read, Written = Read>(type: string, rule: Field<Read>["rule"]) =>
  (id: number): Field<Read, Written> => ({ id, type, rule });

export const text = field<string>("string", "optional");
export const texts = field<readonly string[]>("string", "repeated");
export const blob = field<Uint8Array>("bytes", "optional");
export const blobs = field<readonly Uint8Array[]>("bytes", "repeated");
export const int32 = field<number>("int32", "optional");
export const int64 = field<Int64, Int64 | number>("int64", "optional");
export const int64s = field<readonly Int64[], readonly (Int64 | number)[]>("int64", "repeated");
export const float = field<number>("float", "optional");
export const floats = field<readonly number[]>("float", "repeated");

/** A field that is absent reads as "", 0 or empty; `Object.hasOwn` tells it from one that is written so. */
type Read<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends Field<infer T, unknown> ? T : never;
};
type Written<F extends Fields> = {
  readonly [K in keyof F]?: F[K] extends Field<unknown, infer T> ? T : never;
};

export interface Message<F extends Fields> {
  /** Throws a `RangeError` that begins with `what` when the bytes are no such message. */
  readonly decode: (bytes: Uint8Array, what?: string) => Read<F>;
  /** Fields in the order of their numbers, after those of `before`, which are encoded already. */
  readonly encode: (values: Written<F>, before?: readonly Uint8Array[]) => Uint8Array;
}

export function message<F extends Fields>(fields: F): Message<F> {
  const type = new protobuf.Type("Message");
  for (const [name, { id, type: kind, rule }] of Object.entries(fields))
    type.add(new protobuf.Field(name, id, kind, rule));
  new protobuf.Root().add(type);
  return {
    decode(bytes, what = "a message") {
      const reader = protobuf.Reader.create(bytes);
      reader.discardUnknown = true;
      // The decoder is made from the fields that the type is made from.
      return guarded(what, () => type.decode(reader) as unknown as Read<F>);
    },
    encode(values, before = []) {
      const writer = protobuf.Writer.create();
      for (const bytes of before) writer.raw(bytes);
      return type.encode(values, writer).finish();
    },
  };
}

/** The fields of a message, each with its tag, without those of one number. */
export function fieldsBut(bytes: Uint8Array, id: number): readonly Uint8Array[] {
  const reader = protobuf.Reader.create(bytes);
  const kept: Uint8Array[] = [];
  return guarded("a message", () => {
    while (reader.pos < reader.len) {
      const from = reader.pos;
      const tag = reader.uint32();
      reader.skipType(tag & 7);
      if (tag >>> 3 !== id) kept.push(bytes.subarray(from, reader.pos));
    }
    return kept;
  });
}

function guarded<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new RangeError(`${what} ${reasonOf(error)}`);
  }
}

function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const [, at, needed, length] = /^index out of range: (\d+) \+ (\d+) > (\d+)$/.exec(text) ?? [];
  return length === undefined
    ? `has bytes that are no field (${text})`
    : `needs ${String(needed)} bytes at byte ${String(at)}, and has ${String(Number(length) - Number(at))}`;
}
