/**
 * @file Runs a training task in a thread of its own, because the runtime blocks the thread that it works in.
 *
 * Where only sources are (tests), there is no compiled thread to start, and the task runs here; the answer is the same to the bit.
 */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { checkOnnxruntime } from "../onnxruntime.ts";
import { trainParameters, type TrainingTask } from "./training.ts";

export type TrainingAnswer = { readonly parameters: Float32Array } | { readonly error: string };

export async function trainInThread(task: TrainingTask): Promise<Float32Array> {
  const file = fileURLToPath(new URL("./training-thread.js", import.meta.url));
  if (!existsSync(file)) return trainParameters(task);
  // An error of the thread comes as text, without its code.
  checkOnnxruntime();
  const thread = new Worker(file, { workerData: task });
  try {
    return await new Promise<Float32Array>((resolve, reject) => {
      thread.once("message", (answer: TrainingAnswer) => {
        if ("parameters" in answer) resolve(answer.parameters);
        else reject(new Error(answer.error));
      });
      thread.once("error", reject);
      thread.once("exit", (code) => {
        reject(new Error(`the training thread ended with code ${String(code)} without an answer`));
      });
    });
  } finally {
    await thread.terminate();
  }
}
