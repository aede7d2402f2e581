/**
 * @file The inference jobs whose ONNX model Orbweaver serves itself: which ones they are, what is run for them, what else they may say.
 *
 * `class: inference` with a model that ends in `.onnx` and no command of its own. Such a job runs `orbweaver serve` once on one host,
 * whatever its gang; what its file says of serving travels in variables.
 */

import { valueAt } from "./schema-problems.ts";
import { SERVING_ENV } from "./serving-env.ts";

/** What is run; the agent takes its own installation for the program. */
export const SERVE_COMMAND: readonly string[] = ["orbweaver", "serve"];

export const isOnnxFile = (model: unknown): model is string =>
  typeof model === "string" && model.endsWith(".onnx");

/** Of a job file as it was written, readable or not. */
export const isServedFile = (file: unknown): boolean =>
  valueAt(file, ["class"]) === "inference" &&
  isOnnxFile(valueAt(file, ["model"])) &&
  valueAt(file, ["run", "command"]) === undefined;

export interface ServeWish {
  readonly port?: number | undefined;
  readonly maxBatch?: number | undefined;
  /** Milliseconds. */
  readonly batchWindow?: number | undefined;
  readonly queue?: number | undefined;
}

export function servingVariables(wish: ServeWish): Readonly<Record<string, string>> {
  const { port, maxBatch, batchWindow, queue } = wish;
  return {
    ...(port !== undefined && { [SERVING_ENV.port]: String(port) }),
    ...(maxBatch !== undefined && { [SERVING_ENV.maxBatch]: String(maxBatch) }),
    ...(batchWindow !== undefined && { [SERVING_ENV.batchWindowMs]: String(batchWindow) }),
    ...(queue !== undefined && { [SERVING_ENV.queue]: String(queue) }),
  };
}
