/**
 * @file Orders to tasks of an array: refuses those that make no sense, cancels tasks, and runs ended tasks again.
 *
 * A task that waits is cancelled at once. A task that runs is stopped on its hosts, and the end of its batch says how it ended.
 */

import {
  checkTaskRanges,
  formatTaskRanges,
  parseTaskRanges,
} from "../../domain/job/task-ranges.ts";
import type { TaskOrder, TaskOrderAnswer } from "../../protocol/job.ts";
import type { OrderRefusal } from "../job/amended.ts";
import type { Step } from "../machine.ts";
import { andThen } from "../steps.ts";
import { memoizeSome } from "./array-marks.ts";
import type { ArrayStep, JobArray } from "./array-state.ts";
import { changeTasks, endTask, forgetFailures, returnTask } from "./task-changes.ts";
import { stateOf } from "./task-table.ts";
import { stopTasks } from "./task-stops.ts";

/** Tasks that an answer names at most, at up to 8 characters each. */
const MAX_SKIPPED_NAMED = 2_000;

/** Refuses every order to an array that is ending. */
export const refuseEnding = ({ phase, reason, jobId }: JobArray): OrderRefusal | undefined =>
  phase.kind === "open" && reason === undefined
    ? undefined
    : { code: "NOT_ALLOWED", message: `job ${jobId} is ending` };

/** Refuses, too, an order that names no tasks of the array. */
export function refuseTasks(array: JobArray, order: unknown): OrderRefusal | undefined {
  const refusal = refuseEnding(array);
  if (refusal !== undefined) return refusal;
  const named = typeof order === "object" && order !== null && "tasks" in order ? order.tasks : "";
  const wrong = checkTaskRanges(String(named), array.rule.count);
  if (wrong === undefined) return undefined;
  const message = `tasks of ${array.jobId}: ${wrong.message}; ${wrong.remedy}`;
  return { code: "BAD_INPUT", message };
}

/** The answer to an order to cancel tasks, before the order is fed. */
export function cancelAnswer(array: JobArray, order: TaskOrder): TaskOrderAnswer {
  const { waiting, running, ended } = tasksOf(array, order);
  return { done: waiting.length, stopping: running.length, ...skipping(ended) };
}

/** The answer to an order to run tasks again, before the order is fed. */
export function retryAnswer(array: JobArray, order: TaskOrder): TaskOrderAnswer {
  const { named, ended } = tasksOf(array, order);
  const again = new Set(ended);
  return {
    done: ended.length,
    stopping: 0,
    ...skipping(named.filter((task) => !again.has(task))),
  };
}

const skipping = (tasks: readonly number[]): Pick<TaskOrderAnswer, "skipped" | "skippedTasks"> => ({
  skipped: tasks.length,
  ...(tasks.length > 0 && { skippedTasks: formatTaskRanges(tasks.slice(0, MAX_SKIPPED_NAMED)) }),
});

export function cancelTasks(array: JobArray, order: TaskOrder, nowMs: number): ArrayStep {
  const { waiting, running } = tasksOf(array, order);
  const { tasks } = changeTasks(array.tasks, (changes) => {
    for (const task of waiting) endTask(changes, task, { state: "cancelled" });
  });
  const unwanted = new Set([...array.unwanted, ...running]);
  const stopping = stopTasks({ ...array, tasks, unwanted }, new Set(running), nowMs);
  return andThen(stopping, memoizeSome);
}

/** As if the tasks had never been started. */
export function retryTasks(array: JobArray, order: TaskOrder): Step<JobArray, never> {
  const { ended } = tasksOf(array, order);
  const { tasks } = changeTasks(array.tasks, (changes) => {
    for (const task of ended) {
      forgetFailures(changes, task);
      returnTask(changes, task, {});
    }
  });
  return { state: { ...array, tasks }, commands: [] };
}

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

interface NamedTasks {
  readonly named: readonly number[];
  readonly waiting: readonly number[];
  readonly running: readonly number[];
  readonly ended: readonly number[];
}

function tasksOf({ tasks, rule }: JobArray, order: TaskOrder): NamedTasks {
  const read = parseTaskRanges(String(order.tasks), rule.count);
  const named = read.kind === "read" ? read.value : [];
  const waiting = named.filter((task) => stateOf(tasks, task) === "waiting");
  const running = named.filter((task) => stateOf(tasks, task) === "running");
  const isOpen = new Set([...waiting, ...running]);
  return { named, waiting, running, ended: named.filter((task) => !isOpen.has(task)) };
}
