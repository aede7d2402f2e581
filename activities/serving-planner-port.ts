/**
 * @file Plans the serving of a model, or improves the plan over its GPUs, in a thread of its own, because timing and searching take seconds of a core while the
 * worker must send heartbeats.
 */

import { existsSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { InferenceFacts } from "../domain/model/inference-facts.ts";
import type { InferenceHost } from "../domain/model/inference-host.ts";
import type { ServingPlan } from "../domain/model/serving-plan.ts";
import type { GpuPlan } from "./serving-gpu-plan.ts";
import { highsSolver } from "../solvers/index.ts";
import { polishServing } from "./serving-polish.ts";
import { planServing, type ModelFile, type ServingOptions } from "./serving-planner.ts";

export interface PlannerTask {
  readonly file: string;
  readonly gpus: number;
  readonly options: ServingOptions;
}

/** For the other use of the thread: to improve a plan. */
export interface PolishTask {
  readonly file: string;
  readonly gpuHost: InferenceHost;
  readonly limitMs: number;
}

export type PlannerAnswer =
  | { readonly kind: "planned"; readonly plan: ServingPlan; readonly onGpus?: GpuPlan }
  | { readonly kind: "refused"; readonly message: string };

/** Throws when the signal aborts first. Without compiled threads (unit tests), plans in the caller's thread. */
export async function planInThread(task: PlannerTask, signal: AbortSignal): Promise<PlannerAnswer> {
  if (isThreaded()) return inThread<PlannerAnswer>(task, signal);
  return planServing(modelIn(task.file), task.gpus, task.options);
}

/** Likewise; undefined when the model cannot be planned over the host. */
export async function polishInThread(
  task: PolishTask,
  signal: AbortSignal,
): Promise<InferenceFacts | undefined> {
  if (isThreaded()) return inThread<InferenceFacts | undefined>(task, signal);
  return polishServing(modelIn(task.file), task.gpuHost, {
    solver: highsSolver,
    limitMs: task.limitMs,
  });
}

export const modelIn = (file: string): ModelFile => ({
  name: basename(file).replace(/\.onnx$/, ""),
  bytes: readFileSync(file),
});

const ENTRY = fileURLToPath(new URL("./serving-planner-thread.js", import.meta.url));
const isThreaded = (): boolean => existsSync(ENTRY);

async function inThread<Answer>(
  task: PlannerTask | PolishTask,
  signal: AbortSignal,
): Promise<Answer> {
  signal.throwIfAborted();
  const thread = new Worker(ENTRY, { workerData: task });
  try {
    return await new Promise<Answer>((resolve, reject) => {
      thread.once("message", resolve);
      thread.once("error", reject);
      thread.once("exit", (code) => reject(new Error(`the planner ended with code ${code}`)));
      signal.addEventListener("abort", () => reject(new Error("the planner took too long")), {
        once: true,
      });
    });
  } finally {
    await thread.terminate();
  }
}
