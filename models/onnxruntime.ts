/**
 * @file Loads onnxruntime where something runs or trains a model, and says how to install it where it is missing: the npm package leaves it to those who need it.
 *
 * Nothing else loads it, so whatever asks no model works without.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { OrbweaverError } from "../domain/values/failure.ts";

export type Onnxruntime = typeof import("onnxruntime-node");

/** Nothing is installed; the message has the remedy. */
export class OnnxruntimeMissing extends OrbweaverError {
  constructor() {
    super(
      "NOT_FOUND",
      "onnxruntime-node is not installed beside Orbweaver; only training the bandwidth model, ONNX models and serving them need it. " +
        "Install it with: npm install --global --ignore-scripts onnxruntime-node@1.30.0",
    );
  }
}

/** Throws OnnxruntimeMissing when there is none. */
export async function onnxruntime(): Promise<Onnxruntime> {
  checkOnnxruntime();
  return await import("onnxruntime-node");
}

/** Throws as `onnxruntime` does, and loads nothing. `from`: the file that would load it. */
export function checkOnnxruntime(from: string = import.meta.url): void {
  try {
    createRequire(from).resolve("onnxruntime-node");
  } catch {
    throw new OnnxruntimeMissing();
  }
}

/** Of the installed package. Throws as `onnxruntime` does, and loads nothing. */
export function onnxruntimeVersion(): string {
  checkOnnxruntime();
  const entry = createRequire(import.meta.url).resolve("onnxruntime-node");
  // The package's own description of itself.
  const { version } = JSON.parse(readFileSync(join(dirname(entry), "../package.json"), "utf8")) as {
    readonly version: string;
  };
  return version;
}
