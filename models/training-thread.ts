/** @file The thread of `training-thread-port.ts`: trains one task after the other, answers each. */

import { parentPort } from "node:worker_threads";
import type { TrainingAnswer } from "./training-thread-port.ts";
import { trainParameters, type TrainingTask } from "./training.ts";

async function answer(task: TrainingTask): Promise<TrainingAnswer> {
  try {
    return { parameters: await trainParameters(task) };
  } catch (error) {
    return { error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

// Posted by `trainInThread` alone, a task at a time.
parentPort?.on("message", (task: TrainingTask) => {
  void answer(task).then((reply) => parentPort?.postMessage(reply));
});
