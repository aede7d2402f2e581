/** @file The thread of `serving-planner-port.ts`: makes or improves one plan and ends. */

import { parentPort, workerData } from "node:worker_threads";
import { highsSolver } from "../solvers/index.ts";
import { planServing } from "./serving-planner.ts";
import {
  modelIn,
  type PlannerAnswer,
  type PlannerTask,
  type PolishTask,
} from "./serving-planner-port.ts";
import { polishServing } from "./serving-polish.ts";

// Only `serving-planner-port.ts` starts this thread, with a task.
const task = workerData as PlannerTask | PolishTask;

async function planned({ file, gpus, options }: PlannerTask): Promise<PlannerAnswer> {
  const answer = await planServing(modelIn(file), gpus, options);
  if (answer.kind === "refused") return answer;
  const { plan, onGpus } = answer;
  return { kind: "planned", plan, ...(onGpus !== undefined && { onGpus }) };
}

const answer =
  "gpuHost" in task
    ? polishServing(modelIn(task.file), task.gpuHost, {
        solver: highsSolver,
        limitMs: task.limitMs,
      })
    : planned(task).catch((error: unknown): PlannerAnswer => {
        const message = error instanceof Error ? error.message : String(error);
        return { kind: "refused", message };
      });

void answer.then((reply) => parentPort?.postMessage(reply));
