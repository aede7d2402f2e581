/**
 * @file onnxruntime for any model: named tensors of any element type in and out, optimised or as the file is written, with or
 * without a profile of its operators.
 *
 * `run` works in the calling thread, behind a promise; further threads are spun by onnxruntime when asked for.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { InferenceSession, Tensor } from "onnxruntime-node";
import { onnxruntime, type Onnxruntime } from "../onnxruntime.ts";
import type { OnnxType } from "./onnx-type.ts";

export interface TensorValue {
  readonly type: OnnxType;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

/** `bool` has a byte an element; `float16` and `bfloat16` their two bytes as a whole number. */
export type TensorData =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

export interface OnnxSession {
  readonly inputs: readonly SessionPort[];
  readonly outputs: readonly SessionPort[];
  run(feeds: ReadonlyMap<string, TensorValue>): Promise<ReadonlyMap<string, TensorValue>>;
  /** The events of a profile so far; empty without one. May be asked for once. */
  profile(): readonly ProfileEvent[];
  release(): Promise<void>;
}

export interface SessionPort {
  readonly name: string;
  readonly type: OnnxType;
  /** Open dimensions by their names; "?" for one without. */
  readonly shape: readonly (number | string)[];
}

/** As onnxruntime writes them, in the format of Chrome's traces. */
export interface ProfileEvent {
  readonly cat: string;
  readonly name: string;
  /** Microseconds. */
  readonly ts: number;
  readonly dur: number;
  readonly args: Readonly<Record<string, unknown>>;
}

interface OnnxSessionOptions {
  readonly threads?: number;
  /** `as-written`: every operator runs by itself; `all`: onnxruntime's default. */
  readonly optimise?: "as-written" | "all";
  readonly isProfiled?: boolean;
  /** The GPU that runs it, by onnxruntime's CUDA provider; absent: the processor. */
  readonly cudaGpu?: number;
  /** Where the optimised model is written, for sessions to come on this machine; its weights go to `weightsOf` this file, also as its operators pack them. */
  readonly keepAt?: string;
}

/** The file beside a model written with `keepAt` that holds its weights; a session maps it into its memory. */
export const weightsOf = (file: string): string => `${file}.weights`;

/** `model`: its bytes, or the path of a file that `keepAt` has had written, to be opened `as-written`. */
export async function openOnnx(
  model: Uint8Array | string,
  { threads = 1, optimise = "all", isProfiled = false, cudaGpu, keepAt }: OnnxSessionOptions = {},
): Promise<OnnxSession> {
  const folder = isProfiled ? mkdtempSync(join(tmpdir(), "orbweaver-profile-")) : undefined;
  const runtime = await onnxruntime();
  const options: InferenceSession.SessionOptions = {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    logSeverityLevel: 4,
    graphOptimizationLevel: optimise === "all" ? "all" : "disabled",
    // Operators that the provider does not know run on the processor, as onnxruntime decides.
    ...(cudaGpu !== undefined && { executionProviders: [{ name: "cuda", deviceId: cudaGpu }] }),
    ...(folder !== undefined && {
      enableProfiling: true,
      profileFilePrefix: join(folder, "profile"),
    }),
    ...(keepAt !== undefined && {
      optimizedModelFilePath: keepAt,
      extra: {
        session: {
          optimized_model_external_initializers_file_name: basename(weightsOf(keepAt)),
          optimized_model_external_initializers_min_size_in_bytes: "1024",
          save_external_prepacked_constant_initializers: "1",
        },
      },
    }),
  };
  const { InferenceSession: sessions } = runtime;
  const session = await (typeof model === "string"
    ? sessions.create(model, options)
    : sessions.create(model, options));
  return {
    inputs: session.inputMetadata.map(portOf),
    outputs: session.outputMetadata.map(portOf),
    async run(feeds) {
      const tensors = Object.fromEntries(
        [...feeds].map(([name, value]) => [name, made(runtime, value)]),
      );
      const answers = await session.run(tensors);
      return new Map(
        Object.entries(answers).map(([name, tensor]) => [name, taken(name, tensor)] as const),
      );
    },
    profile() {
      if (folder === undefined) return [];
      session.endProfiling();
      const [file = ""] = readdirSync(folder);
      const events = readEvents(readFileSync(join(folder, file), "utf8"));
      rmSync(folder, { recursive: true });
      return events;
    },
    release: () => session.release(),
  };
}

function portOf(value: InferenceSession.ValueMetadata): SessionPort {
  if (!value.isTensor) return { name: value.name, type: "undefined", shape: [] };
  const shape = value.shape.map((size) => (size === "" ? "?" : size));
  return { name: value.name, type: value.type, shape };
}

const made = (runtime: Onnxruntime, { type, shape, data }: TensorValue): Tensor =>
  // onnxruntime types its constructor by literal pairs of type and array; which array goes with which type it checks itself.
  new runtime.Tensor(type as "float32", data as Float32Array, shape);

function taken(name: string, tensor: Tensor): TensorValue {
  const { type, dims, data } = tensor;
  if (Array.isArray(data) || !ArrayBuffer.isView(data) || type === "uint4" || type === "int4") {
    throw new TypeError(`${name} is a tensor of ${type}, which cannot be handed on`);
  }
  return { type, shape: dims, data: data as TensorData };
}

/** The file is the runtime's own; what is no event of that form is left out. */
function readEvents(text: string): readonly ProfileEvent[] {
  const rows: unknown = JSON.parse(text);
  return (Array.isArray(rows) ? rows : []).filter(isEvent);
}

const isEvent = (row: unknown): row is ProfileEvent =>
  typeof row === "object" &&
  row !== null &&
  "cat" in row &&
  "name" in row &&
  "ts" in row &&
  "dur" in row &&
  "args" in row &&
  typeof row.name === "string" &&
  typeof row.ts === "number" &&
  typeof row.dur === "number" &&
  typeof row.args === "object";
