/**
 * @file What an ONNX operator costs on any device: floating-point operations, and bytes that it reads and writes.
 *
 * Products (MatMul, Gemm, Conv, Einsum, recurrent layers) are counted exactly, a multiplication and its addition as 2. Other
 * operators cost a fixed number of operations for each element that they make or reduce, by the table below; an operator that is not in the
 * table costs 1. Operators that only rename, cut or look up cost none. Shapes are those of a run (`onnx-trace.ts`).
 */

import type { OnnxOperator } from "./onnx-model.ts";
import type { ValueShape } from "./onnx-type.ts";

interface OperatorCost {
  readonly flops: number;
  /** Bytes read and written; a look-up reads the rows that it gives, not the whole table. */
  readonly movedBytes: number;
}

export type ShapeOf = (name: string) => ValueShape | undefined;

/** Operations for each element of the output. Transcendental functions are polynomials of about this many terms. */
const PER_OUTPUT: ReadonlyMap<string, number> = new Map([
  ...["Exp", "Log", "Tanh", "Sigmoid", "Erf", "Sin", "Cos", "Softplus", "Pow", "Elu", "Selu"].map(
    (op) => [op, 8] as const,
  ),
  ...["Gelu", "FastGelu", "QuickGelu", "BiasGelu", "Mish", "Swish", "HardSwish"].map(
    (op) => [op, 12] as const,
  ),
  ...["Softmax", "LogSoftmax"].map((op) => [op, 12] as const),
  ...["LayerNormalization", "InstanceNormalization", "GroupNormalization"].map(
    (op) => [op, 8] as const,
  ),
  ...["SimplifiedLayerNormalization", "RMSNormalization", "LpNormalization"].map(
    (op) => [op, 6] as const,
  ),
  ...["SkipLayerNormalization", "EmbedLayerNormalization"].map((op) => [op, 10] as const),
  ["BatchNormalization", 2],
  ["LRN", 12],
  ["Resize", 4],
  ["Upsample", 4],
]);

const FREE: ReadonlySet<string> = new Set([
  ...["Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Shape", "Size"],
  ...["Concat", "Split", "Slice", "Gather", "GatherElements", "GatherND", "Expand", "Tile", "Pad"],
  ...["Constant", "ConstantOfShape", "Range", "Cast", "CastLike", "Dropout", "Where", "OneHot"],
  ...["DepthToSpace", "SpaceToDepth", "ScatterElements", "ScatterND", "EyeLike", "Trilu"],
]);

const LOOK_UPS: ReadonlySet<string> = new Set(["Gather", "GatherElements", "GatherND"]);

export function operatorCost(operator: OnnxOperator, shapeOf: ShapeOf): OperatorCost {
  return { flops: flopsOf(operator, shapeOf), movedBytes: movedBytesOf(operator, shapeOf) };
}

/** Bytes that the operator reads of its input at `place`. */
export function touchedBytes(operator: OnnxOperator, place: number, shapeOf: ShapeOf): number {
  const whole = shapeOf(operator.inputs[place] ?? "")?.sizeBytes ?? 0;
  if (place !== 0 || !LOOK_UPS.has(operator.op)) return whole;
  return Math.min(whole, shapeOf(operator.outputs[0] ?? "")?.sizeBytes ?? whole);
}

function movedBytesOf(operator: OnnxOperator, shapeOf: ShapeOf): number {
  const read = operator.inputs.reduce(
    (sum, _, place) => sum + touchedBytes(operator, place, shapeOf),
    0,
  );
  return operator.outputs.reduce((sum, name) => sum + (shapeOf(name)?.sizeBytes ?? 0), read);
}

function flopsOf(operator: OnnxOperator, shapeOf: ShapeOf): number {
  const { op, inputs, outputs } = operator;
  const input = (place: number): readonly number[] => shapeOf(inputs[place] ?? "")?.shape ?? [];
  const output = shapeOf(outputs[0] ?? "")?.shape ?? [];
  if (FREE.has(op)) return 0;
  switch (op) {
    case "MatMul":
    case "FusedMatMul":
    case "MatMulInteger":
    case "QLinearMatMul":
      return 2 * product(output) * (input(0).at(flagOf(operator, "transA") ? -2 : -1) ?? 1);
    case "Gemm": {
      const common = input(0)[flagOf(operator, "transA") ? 0 : 1] ?? 1;
      return product(output) * (2 * common + (input(2).length > 0 ? 1 : 0));
    }
    // Output × (channels of a group × window): all but the first axis of the weights.
    case "Conv":
    case "ConvInteger":
    case "QLinearConv":
    case "FusedConv":
      return (
        2 * product(output) * product(input(op === "QLinearConv" ? 3 : 1).slice(1)) +
        (inputs.length > 2 && op === "Conv" ? product(output) : 0)
      );
    case "ConvTranspose":
      return 2 * product(input(0)) * product(input(1).slice(1));
    case "AveragePool":
    case "MaxPool":
    case "LpPool":
      return product(output) * product(numbersOf(operator, "kernel_shape"));
    // Weights [directions, gates × hidden, input] and recurrence [directions, gates × hidden, hidden] for each step and sequence.
    case "LSTM":
    case "GRU":
    case "RNN":
      return 2 * product(input(0).slice(0, 2)) * (product(input(1)) + product(input(2)));
    case "Einsum":
      return einsumFlops(operator, input);
    // Two products over all pairs of query and key positions: [batch, heads, queries, size] with keys.
    case "Attention":
    case "MultiHeadAttention":
      return 4 * product(output) * (input(1).at(-2) ?? output.at(-2) ?? 1);
    default:
      break;
  }
  if (op.startsWith("Reduce") || op.startsWith("Global") || op.startsWith("Arg")) {
    return product(input(0));
  }
  const elements = outputs.reduce(
    (most, name) => Math.max(most, product(shapeOf(name)?.shape ?? [])),
    0,
  );
  return elements * (PER_OUTPUT.get(op) ?? 1);
}

/** The product of the sizes of all labels that occur, twice. Labels under an ellipsis count with the output. */
function einsumFlops(
  { attributes, inputs }: OnnxOperator,
  input: (place: number) => readonly number[],
): number {
  const equation = attributes.get("equation");
  const terms =
    String(equation ?? "")
      .replaceAll(" ", "")
      .split("->", 1)[0]
      ?.split(",") ?? [];
  const sizes = new Map<string, number>();
  inputs.forEach((_, place) => {
    const shape = input(place);
    const labels = [
      ...(terms[place] ?? "").replace(
        "...",
        "*".repeat(Math.max(0, shape.length - (terms[place] ?? "").replace("...", "").length)),
      ),
    ];
    labels.forEach((label, axis) => {
      const key = label === "*" ? `*${axis - labels.length}` : label;
      sizes.set(key, Math.max(sizes.get(key) ?? 1, shape[axis] ?? 1));
    });
  });
  return 2 * product([...sizes.values()]);
}

const flagOf = ({ attributes }: OnnxOperator, name: string): boolean => attributes.get(name) === 1;

function numbersOf({ attributes }: OnnxOperator, name: string): readonly number[] {
  const value = attributes.get(name);
  return Array.isArray(value) ? value.map(Number) : [];
}

const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);
