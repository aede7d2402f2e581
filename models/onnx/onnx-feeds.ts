/**
 * @file Made-up inputs for a trial run of a model: sizes for open dimensions, harmless numbers.
 *
 * Every named dimension takes the size bound to it, and `otherwise` when none is. Real numbers are spread over −1 to 1, the same
 * ones each time; whole numbers are all `whole`, because they are usually indices (token, position, class) or masks.
 */

import type { TensorData, TensorValue } from "./onnx-session.ts";
import type { OnnxModel, OnnxPort } from "./onnx-model.ts";
import type { OnnxType } from "./onnx-type.ts";

export interface FeedOptions {
  /** Sizes of dimensions that the file leaves open, by their names; `?` for those without one. */
  readonly bindings: ReadonlyMap<string, number>;
  /** For dimensions that are not bound. */
  readonly otherwise: number;
  readonly whole: 0 | 1;
}

export interface Feeds {
  readonly values: ReadonlyMap<string, TensorValue>;
  /** What every named dimension was taken as. */
  readonly sizes: ReadonlyMap<string, number>;
}

type MadeFeeds =
  | { readonly kind: "made"; readonly feeds: Feeds }
  | { readonly kind: "refused"; readonly message: string };

export function trialFeeds(model: OnnxModel, options: FeedOptions): MadeFeeds {
  const sizes = new Map<string, number>();
  const values = new Map<string, TensorValue>();
  for (const port of model.inputs) {
    const { name, type, shape } = port;
    if (type === undefined || shape === undefined) {
      return refused(port, "has no tensor type with a known rank");
    }
    const known = shape.map((size) => {
      if (typeof size === "number") return size;
      const bound = options.bindings.get(size) ?? options.otherwise;
      sizes.set(size, bound);
      return bound;
    });
    const count = known.reduce((product, size) => product * size, 1);
    const data = numbers(type, count, options.whole);
    if (data === undefined) return refused(port, `is a tensor of ${type}`);
    values.set(name, { type, shape: known, data });
  }
  const stray = [...options.bindings.keys()].find((name) => !sizes.has(name));
  if (stray !== undefined) {
    const open = [...sizes.keys()].join(", ") || "none";
    return {
      kind: "refused",
      message: `no input has a dimension ${stray}; the open dimensions are: ${open}`,
    };
  }
  return { kind: "made", feeds: { values, sizes } };
}

const refused = ({ name }: OnnxPort, why: string): MadeFeeds => ({
  kind: "refused",
  message: `the input ${name} ${why}, so it cannot be made up for a trial run. Export the model with tensors of numbers as inputs.`,
});

function numbers(type: OnnxType, count: number, whole: number): TensorData | undefined {
  switch (type) {
    case "float32":
      return new Float32Array(count).map(spread);
    case "float64":
      return new Float64Array(count).map(spread);
    case "float16":
      // Half of one, and its negative.
      return new Uint16Array(count).map((_, at) => (at % 2 === 0 ? 0x3800 : 0xb800));
    case "int64":
      return new BigInt64Array(count).fill(BigInt(whole));
    case "uint64":
      return new BigUint64Array(count).fill(BigInt(whole));
    case "int32":
      return new Int32Array(count).fill(whole);
    case "uint32":
      return new Uint32Array(count).fill(whole);
    case "int16":
      return new Int16Array(count).fill(whole);
    case "uint16":
      return new Uint16Array(count).fill(whole);
    case "int8":
      return new Int8Array(count).fill(whole);
    case "uint8":
      return new Uint8Array(count).fill(whole);
    case "bool":
      return new Uint8Array(count).fill(1);
    default:
      return undefined;
  }
}

/** A low-discrepancy row: multiples of the golden ratio, without their whole part. */
const spread = (_: number, at: number): number => ((at * 0.618_033_988_749_895) % 1) * 2 - 1;

/** What feeds or other values have under this name; nothing where it is not among them. */
export function entryOf(
  values: ReadonlyMap<string, TensorValue>,
  name: string,
): readonly (readonly [name: string, tensor: TensorValue])[] {
  const value = values.get(name);
  return value === undefined ? [] : [[name, value]];
}
