/** @file The thread of `training-thread-port.ts`: trains what it was started with, answers once. */

import { parentPort, workerData } from "node:worker_threads";
import type { TrainingAnswer } from "./training-thread-port.ts";
import { trainParameters, type TrainingTask } from "./training.ts";

// Started by `trainInThread` alone, which gives it a task.
const task = workerData as TrainingTask;

async function answer(): Promise<TrainingAnswer> {
  try {
    return { parameters: await trainParameters(task) };
  } catch (error) {
    return { error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

void answer().then((reply) => parentPort?.postMessage(reply));
