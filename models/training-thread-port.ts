/**
 * @file Runs a training task in a thread of its own, because the runtime blocks the thread that it works in.
 *
 * A thread that is done waits a minute for the next task: to start one and to have the runtime prepare the graph of a step costs about
 * a third of a fine-tuning. A waiting thread keeps no process alive. Tasks at the same time have threads of their own. Where only sources
 * are (tests), there is no compiled thread to start, and the task runs here; the answer is the same to the bit.
 */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { trainParameters, type TrainingTask } from "./training.ts";

export type TrainingAnswer = { readonly parameters: Float32Array } | { readonly error: string };

const WAIT_MS = 60_000;

interface Waiting {
  readonly thread: Worker;
  readonly timer: NodeJS.Timeout;
}

/** At most one thread waits. */
let waiting: Waiting | undefined;

export async function trainInThread(task: TrainingTask): Promise<Float32Array> {
  const file = fileURLToPath(new URL("./training-thread.js", import.meta.url));
  if (!existsSync(file)) return trainParameters(task);
  const thread = takeWaiting() ?? new Worker(file);
  thread.ref();
  const answer = await answerOf(thread, task);
  if (waiting === undefined) keep(thread);
  else await thread.terminate();
  if ("parameters" in answer) return answer.parameters;
  throw new Error(answer.error);
}

function takeWaiting(): Worker | undefined {
  if (waiting === undefined) return undefined;
  const { thread, timer } = waiting;
  waiting = undefined;
  clearTimeout(timer);
  thread.removeAllListeners();
  return thread;
}

function keep(thread: Worker): void {
  const leave = (): void => {
    if (waiting?.thread === thread) takeWaiting();
    void thread.terminate();
  };
  thread.once("error", leave);
  thread.once("exit", leave);
  thread.unref();
  waiting = { thread, timer: setTimeout(leave, WAIT_MS).unref() };
}

async function answerOf(thread: Worker, task: TrainingTask): Promise<TrainingAnswer> {
  try {
    return await new Promise<TrainingAnswer>((resolve, reject) => {
      thread.once("message", resolve);
      thread.once("error", reject);
      thread.once("exit", (code) => {
        reject(new Error(`the training thread ended with code ${String(code)} without an answer`));
      });
      thread.postMessage(task);
    });
  } finally {
    thread.removeAllListeners();
  }
}
