/**
 * @file Inference jobs whose ONNX model Orbweaver serves itself: their recognition, their command, and their variables.
 *
 * Such a job has `class: inference`, a model that ends in `.onnx`, and no command of its own. It runs `orbweaver serve` once on
 * one host, whatever its gang; its settings of the service travel in variables.
 */

import { valueAt } from "../file/schema-problems.ts";
import { SERVING_ENV } from "./serving-env.ts";

/** The command; the agent uses its own installation as the program. */
export const SERVE_COMMAND: readonly string[] = ["orbweaver", "serve"];

const isOnnxFile = (model: unknown): model is string =>
  typeof model === "string" && model.endsWith(".onnx");

/** Of a job file as it was written, readable or not. */
export const isServedFile = (file: unknown): boolean =>
  valueAt(file, ["class"]) === "inference" &&
  isOnnxFile(valueAt(file, ["model"])) &&
  valueAt(file, ["run", "command"]) === undefined;

export interface ServeSettings {
  readonly port?: number | undefined;
  readonly maxBatch?: number | undefined;
  /** Milliseconds. */
  readonly batchWindow?: number | undefined;
  readonly queue?: number | undefined;
}

export function servingVariables(settings: ServeSettings): Readonly<Record<string, string>> {
  const { port, maxBatch, batchWindow, queue } = settings;
  return {
    ...(port !== undefined && { [SERVING_ENV.port]: String(port) }),
    ...(maxBatch !== undefined && { [SERVING_ENV.maxBatch]: String(maxBatch) }),
    ...(batchWindow !== undefined && { [SERVING_ENV.batchWindowMs]: String(batchWindow) }),
    ...(queue !== undefined && { [SERVING_ENV.queue]: String(queue) }),
  };
}
