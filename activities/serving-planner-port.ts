/**
 * @file Plans the serving of a model in a thread of its own, because timing and searching take seconds of a core while the
 * worker must send heartbeats.
 */

import { existsSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { ServingPlan } from "../domain/model/serving-plan.ts";
import type { GpuPlan } from "./serving-gpu-plan.ts";
import { planServing, type ServingOptions } from "./serving-planner.ts";

export interface PlannerTask {
  readonly file: string;
  readonly gpus: number;
  readonly options: ServingOptions;
}

export type PlannerAnswer =
  | { readonly kind: "planned"; readonly plan: ServingPlan; readonly onGpus?: GpuPlan }
  | { readonly kind: "refused"; readonly message: string };

/** Throws when the signal aborts first. Without compiled threads (unit tests), plans in the caller's thread. */
export async function planInThread(task: PlannerTask, signal: AbortSignal): Promise<PlannerAnswer> {
  const entry = fileURLToPath(new URL("./serving-planner-thread.js", import.meta.url));
  if (!existsSync(entry)) {
    const name = basename(task.file).replace(/\.onnx$/, "");
    return planServing({ name, bytes: readFileSync(task.file) }, task.gpus, task.options);
  }
  const thread = new Worker(entry, { workerData: task });
  try {
    return await new Promise<PlannerAnswer>((resolve, reject) => {
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
