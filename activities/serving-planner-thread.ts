/** @file The thread of `serving-planner-port.ts`: makes one plan and ends. */

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { planServing } from "./serving-planner.ts";
import type { PlannerAnswer, PlannerTask } from "./serving-planner-port.ts";

// Only `planInThread` starts this thread, with a task.
const task = workerData as PlannerTask;

async function answer({ file, gpus, options }: PlannerTask): Promise<PlannerAnswer> {
  const name = basename(file).replace(/\.onnx$/, "");
  const planned = await planServing({ name, bytes: readFileSync(file) }, gpus, options);
  if (planned.kind === "refused") return planned;
  const { plan, onGpus } = planned;
  return { kind: "planned", plan, ...(onGpus !== undefined && { onGpus }) };
}

void answer(task)
  .catch((error: unknown): PlannerAnswer => {
    const message = error instanceof Error ? error.message : String(error);
    return { kind: "refused", message };
  })
  .then((reply) => parentPort?.postMessage(reply));
