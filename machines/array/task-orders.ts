/**
 * @file Orders to tasks of an array: refuses those that make no sense, cancels tasks, and runs ended tasks again.
 *
 * A task that waits is cancelled at once. A task that runs is stopped on its hosts, and the end of its batch says how it ended.
 */

import type { TaskOrder } from "../../protocol/job.ts";
import type { OrderRefusal } from "../job/order-refusal.ts";
import type { Step } from "../machine.ts";
import { andThen } from "../steps.ts";
import { memoizeSome } from "./array-marks.ts";
import type { ArrayStep, JobArray } from "./array-state.ts";
import { refuseUnnamed, tasksOf, withCancelled, withRenewed } from "./named-tasks.ts";
import { changeTasks, endTask } from "./task-changes.ts";
import { stateOf } from "./task-table.ts";
import { stopTasks } from "./task-stops.ts";

/** Refuses every order to an array that is ending. */
export const refuseEnding = ({ phase, reason, jobId }: JobArray): OrderRefusal | undefined =>
  phase.kind === "open" && reason === undefined
    ? undefined
    : { code: "NOT_ALLOWED", message: `job ${jobId} is ending` };

/** Refuses, too, an order that names no tasks of the array. */
export const refuseTasks = (array: JobArray, order: unknown): OrderRefusal | undefined =>
  refuseEnding(array) ?? refuseUnnamed({ jobId: array.jobId, count: array.rule.count }, order);

export function cancelTasks(array: JobArray, order: TaskOrder, nowMs: number): ArrayStep {
  const { running } = tasksOf(array.tasks, order);
  const tasks = withCancelled(array.tasks, order);
  const unwanted = new Set([...array.unwanted, ...running]);
  const stopping = stopTasks({ ...array, tasks, unwanted }, new Set(running), nowMs);
  return andThen(stopping, memoizeSome);
}

export const retryTasks = (array: JobArray, order: TaskOrder): Step<JobArray, never> => ({
  state: { ...array, tasks: withRenewed(array.tasks, order) },
  commands: [],
});

/** Cancels all tasks that have no final state yet. */
export function cancelUnfinished(array: JobArray): JobArray {
  const { tasks } = changeTasks(array.tasks, (changes) => {
    for (let task = 0; task < array.rule.count; task += 1) {
      const state = stateOf(changes, task);
      if (state === "waiting" || state === "running")
        endTask(changes, task, { state: "cancelled" });
    }
  });
  return { ...array, tasks };
}
