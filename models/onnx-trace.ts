/**
 * @file Runs a model on made-up inputs and notes what only a run tells: the shape of every value, the time of every operator.
 *
 * Shapes come from onnxruntime itself, from a run of the model as it is written, so whatever operator it can run has them; there
 * are no rules for shapes to be wrong. Times come from further runs as they happen in earnest: optimised, with one thread, each
 * operator's the median over the runs. An operator that was fused with a former one has 0, and its time is with that one.
 * The runtime's own work between operators is part of their times: they sum to the time of a run without a profile.
 */

import { assembledBytes, portBytes, renamed } from "./onnx-assembly.ts";
import { trialFeeds, type FeedOptions, type Feeds } from "./onnx-feeds.ts";
import { openOnnx, type OnnxSession, type ProfileEvent } from "./onnx-session.ts";
import type { OnnxModel } from "./onnx-model.ts";
import { tensorBytes, type OnnxType } from "./onnx-type.ts";

export interface ValueShape {
  /** Undefined where a profile names a type that files do not have. */
  readonly type: OnnxType;
  readonly shape: readonly number[];
  readonly sizeBytes: number;
}

export interface OnnxTrace {
  /** By name: inputs, parameters, and whatever operators make that is a tensor. */
  readonly values: ReadonlyMap<string, ValueShape>;
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
  /** What the timed runs may take altogether; at least one is made. Default 20 s. */
  readonly budgetMs?: number;
}

export type Traced =
  | { readonly kind: "traced"; readonly trace: OnnxTrace }
  | { readonly kind: "refused"; readonly message: string };

const WARM_UP_RUNS = 2;
const DEFAULT_BUDGET_MS = 20_000;
/** No name that a file gives an operator begins with this. */
const MARK = "orbweaver~";

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
    const { sizes } = made.feeds;
    if (timedRuns === 0) return { kind: "traced", trace: { values: shaped, sizes } };
    const times = await timesOf(model, marked, { feeds: made.feeds, ...options, timedRuns });
    return { kind: "traced", trace: { values: shaped, sizes, ...times } };
  }
  return {
    kind: "refused",
    message: `onnxruntime cannot run ${model.name || "the model"}: ${refusal}`,
  };
}

/** Marks every operator with its index, which profiles then carry. */
const markedModel = (model: OnnxModel, shown: readonly string[]): Uint8Array =>
  assembledBytes(model, {
    name: model.name,
    operators: model.operators.map((operator, index) => renamed(operator, `${MARK}${index}.`)),
    parameters: model.parameters,
    inputs: model.inputs.map(({ bytes }) => bytes),
    outputs: [...model.outputs.map(({ bytes }) => bytes), ...shown.map((name) => portBytes(name))],
  });

/** Undefined for what is no operator of the file. */
const indexIn = (name: string): number | undefined => {
  if (!name.startsWith(MARK)) return undefined;
  const index = Number.parseInt(name.slice(MARK.length), 10);
  return Number.isNaN(index) ? undefined : index;
};

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

interface Timing {
  readonly feeds: Feeds;
  readonly timedRuns: number;
  readonly budgetMs?: number;
}

async function timesOf(
  model: OnnxModel,
  marked: Uint8Array,
  { feeds, timedRuns, budgetMs = DEFAULT_BUDGET_MS }: Timing,
): Promise<Required<Pick<OnnxTrace, "operatorMs" | "runMs">>> {
  const perRun = (session: OnnxSession): Promise<readonly number[]> =>
    timedMs(session, feeds, { runs: timedRuns, budgetMs: budgetMs / 2 });
  const plain = await openOnnx(marked);
  let runMs: number;
  try {
    runMs = median(await perRun(plain));
  } finally {
    await plain.release();
  }
  const events = await profiled(marked, "all", async (session) => void (await perRun(session)));
  const runs = runsOf(events).slice(WARM_UP_RUNS);
  const times = model.operators.map(() => new Array<number>(runs.length).fill(0));
  runs.forEach((run, place) => {
    let waiting = 0;
    for (const { name, dur } of run) {
      const row = times[indexIn(name) ?? -1];
      if (row === undefined) {
        // A change of layout that the runtime has put before the next operator.
        waiting += dur;
        continue;
      }
      row[place] = (row[place] ?? 0) + dur + waiting;
      waiting = 0;
    }
  });
  const medians = times.map((row) => median(row));
  const ran = runs[0]?.filter(({ name }) => indexIn(name) !== undefined) ?? [];
  const counts = new Map<number, number>();
  for (const { name } of ran) {
    const index = indexIn(name) ?? -1;
    counts.set(index, (counts.get(index) ?? 0) + 1);
  }
  return { runMs, operatorMs: spreadOver(medians, counts, runMs) };
}

/**
 * Times in ms that sum to `runMs`: what the kernels did not take is shared by all that ran, alike; when the profile itself has
 * cost time, all shrink alike.
 */
function spreadOver(
  kernelUs: readonly number[],
  counts: ReadonlyMap<number, number>,
  runMs: number,
): readonly number[] {
  const kernelMs = kernelUs.map((us) => us / 1_000);
  const sumMs = kernelMs.reduce((sum, ms) => sum + ms, 0);
  const ranCount = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const restMs = runMs - sumMs;
  if (restMs < 0) return kernelMs.map((ms) => (ms * runMs) / sumMs);
  return kernelMs.map((ms, index) => ms + (restMs * (counts.get(index) ?? 0)) / ranCount);
}

/** The kernels of each run; the event of a run comes after those of its operators. */
function runsOf(events: readonly ProfileEvent[]): readonly (readonly ProfileEvent[])[] {
  const runs: ProfileEvent[][] = [];
  let run: ProfileEvent[] = [];
  for (const event of events) {
    if (event.cat === "Node" && event.name.endsWith("_kernel_time")) run.push(event);
    else if (event.cat === "Session" && event.name === "model_run") {
      runs.push(run);
      run = [];
    }
  }
  return runs;
}

async function profiled(
  model: Uint8Array,
  optimise: "as-written" | "all",
  use: (session: OnnxSession) => Promise<void>,
): Promise<readonly ProfileEvent[]> {
  const session = await openOnnx(model, { optimise, isProfiled: true });
  try {
    await use(session);
    return session.profile();
  } finally {
    await session.release();
  }
}

/** The time of each run after the first few, in ms. */
async function timedMs(
  session: OnnxSession,
  { values }: Feeds,
  { runs, budgetMs }: { readonly runs: number; readonly budgetMs: number },
): Promise<readonly number[]> {
  const timesMs: number[] = [];
  const startMs = performance.now();
  for (let run = 0; run < WARM_UP_RUNS + runs; run += 1) {
    const fromMs = performance.now();
    await session.run(values);
    const nowMs = performance.now();
    if (run >= WARM_UP_RUNS) timesMs.push(nowMs - fromMs);
    if (timesMs.length > 0 && nowMs - startMs > budgetMs) break;
  }
  return timesMs;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const high = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? high : (high + (sorted[middle - 1] ?? 0)) / 2;
}

const reasonOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).replace(/\s+/g, " ").slice(0, 400);
