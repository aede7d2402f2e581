/**
 * @file Whether onnxruntime can run a model on a GPU here: tried, because its list of providers names those whose libraries are missing too.
 */

import { OrbweaverError } from "../../domain/values/failure.ts";
import { onnxBytes } from "./onnx-file.ts";
import { openOnnx } from "./onnx-session.ts";

/** Why it cannot, as a sentence; undefined when it can. */
export async function cudaTrouble(): Promise<string | undefined> {
  try {
    const session = await openOnnx(oneOperator(), { cudaGpu: 0 });
    await session.release();
    return undefined;
  } catch (error) {
    if (error instanceof OrbweaverError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    return `onnxruntime has no CUDA provider that works here (${why.replace(/\s+/g, " ").slice(0, 200)}).`;
  }
}

const oneOperator = (): Uint8Array =>
  onnxBytes({
    name: "trial",
    nodes: [{ op: "Relu", inputs: ["x"], outputs: ["y"], attributes: new Map() }],
    constants: [],
    inputs: [{ name: "x", type: "float32", shape: [1] }],
    outputs: [{ name: "y", type: "float32", shape: [1] }],
  });
