/**
 * @file Runs a model on made-up inputs and records the shape of every value and the time of every operator.
 *
 * Shapes come from onnxruntime itself, from a run of the model as it is written, so every operator that it can run has them, and no shape
 * rules of our own can be wrong. Times (`onnx-times.ts`) come from further runs.
 */

import { OrbweaverError } from "../../domain/values/failure.ts";
import { trialFeeds, type FeedOptions, type Feeds } from "./onnx-feeds.ts";
import { indexIn, markedModel, profiled, unmarked } from "./onnx-marks.ts";
import { openOnnx, type TensorValue } from "./onnx-session.ts";
import type { OnnxModel } from "./onnx-model.ts";
import { operatorTimes } from "./onnx-times.ts";
import { tensorBytes, type OnnxType, type ValueShape } from "./onnx-type.ts";

export interface OnnxTrace {
  /** By name: inputs, parameters, and all tensors that operators make. */
  readonly values: ReadonlyMap<string, ValueShape>;
  /** What the model was run on. */
  readonly inputs: ReadonlyMap<string, TensorValue>;
  /** Sizes that open dimensions were given. */
  readonly sizes: ReadonlyMap<string, number>;
  /** By index of the operator; absent when no times were asked for. */
  readonly operatorMs?: readonly number[];
  /** One run of the whole model, median; absent when no times were asked for. */
  readonly runMs?: number;
}

export interface TraceOptions {
  readonly bindings?: ReadonlyMap<string, number>;
  /** Size of open dimensions that are not bound. Default 1. */
  readonly otherwise?: number;
  /** Runs that are timed, after a few that are not; 0 for shapes only. Default 0. */
  readonly timedRuns?: number;
  /** Timed runs go on for so long at least. Default 0. */
  readonly leastMs?: number;
  /** What the timed runs may take altogether; at least one is made. Default 20 s. */
  readonly budgetMs?: number;
}

type Traced =
  | { readonly kind: "traced"; readonly trace: OnnxTrace }
  | { readonly kind: "refused"; readonly message: string };

export async function traceOnnx(model: OnnxModel, options: TraceOptions = {}): Promise<Traced> {
  const { bindings = new Map<string, number>(), otherwise = 1, timedRuns = 0 } = options;
  const marked = markedModel(model, []);
  let refusal = "";
  // Most models take whole numbers of 1 (a mask lets through, an index is in range); those whose tables have one row take 0.
  for (const whole of [1, 0] as const) {
    const made = trialFeeds(model, { bindings, otherwise, whole } satisfies FeedOptions);
    if (made.kind === "refused") return made;
    const shaped = await shapesOf(model, marked, made.feeds).catch(reasonOf);
    if (typeof shaped === "string") {
      refusal = shaped;
      continue;
    }
    const { sizes, values: inputs } = made.feeds;
    if (timedRuns === 0) return { kind: "traced", trace: { values: shaped, inputs, sizes } };
    const times = await operatorTimes(model, (name) => shaped.get(name), {
      feeds: made.feeds,
      timedRuns,
      ...(options.leastMs !== undefined && { leastMs: options.leastMs }),
      ...(options.budgetMs !== undefined && { budgetMs: options.budgetMs }),
    });
    return { kind: "traced", trace: { values: shaped, inputs, sizes, ...times } };
  }
  return {
    kind: "refused",
    message: `onnxruntime cannot run ${model.name || "the model"}: ${unmarked(refusal, model)}`,
  };
}

async function shapesOf(
  model: OnnxModel,
  marked: Uint8Array,
  feeds: Feeds,
): Promise<Map<string, ValueShape>> {
  const values = new Map<string, ValueShape>();
  const note = (name: string, type: OnnxType, shape: readonly number[]): void => {
    values.set(name, { type, shape, sizeBytes: tensorBytes(type, shape) });
  };
  for (const { name, type, shape } of model.parameters) note(name, type, shape);
  for (const [name, { type, shape }] of feeds.values) note(name, type, shape);
  const answers = await profiled(marked, "as-written", async (session) => {
    const outputs = await session.run(feeds.values);
    for (const [name, { type, shape }] of outputs) note(name, type, shape);
  });
  for (const { name, args } of answers) {
    const index = indexIn(name);
    const makes = model.operators[index ?? -1]?.outputs.filter((output) => output !== "");
    const shapes = args["output_type_shape"];
    // A value that is no tensor is left out there, and then it is not known which the others are.
    if (makes === undefined || !Array.isArray(shapes) || shapes.length !== makes.length) continue;
    makes.forEach((output, place) => {
      const found = typeAndShape(shapes[place]);
      if (found !== undefined && !values.has(output)) note(output, found.type, found.shape);
    });
  }
  const hidden = model.operators
    .flatMap(({ outputs }) => outputs)
    .filter((name) => name !== "" && !values.has(name));
  if (hidden.length > 0) {
    // What the runtime has put in the place of an operator does not carry its mark: its values are asked for by name.
    const shown = await openOnnx(markedModel(model, hidden), { optimise: "as-written" });
    try {
      for (const [name, { type, shape }] of await shown.run(feeds.values)) note(name, type, shape);
    } finally {
      await shown.release();
    }
  }
  return values;
}

/** A profile names types as C++ does. */
const PROFILE_TYPES: ReadonlyMap<string, OnnxType> = new Map<string, OnnxType>([
  ["float", "float32"],
  ["double", "float64"],
]);
const KNOWN: readonly OnnxType[] = [
  ...(["float32", "float64", "float16", "bfloat16", "bool", "string"] as const),
  ...(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"] as const),
];

function typeAndShape(
  entry: unknown,
): { readonly type: OnnxType; readonly shape: readonly number[] } | undefined {
  if (typeof entry !== "object" || entry === null) return undefined;
  const [found] = Object.entries(entry);
  if (found === undefined) return undefined;
  const [word, shape]: readonly [string, unknown] = found;
  const type = PROFILE_TYPES.get(word) ?? KNOWN.find((each) => each === word);
  if (type === undefined || !Array.isArray(shape)) return undefined;
  return { type, shape: shape.map(Number) };
}

/** What is no trouble of the model goes on. */
function reasonOf(error: unknown): string {
  if (error instanceof OrbweaverError) throw error;
  return (error instanceof Error ? error.message : String(error))
    .replace(/\s+/g, " ")
    .slice(0, 400);
}
