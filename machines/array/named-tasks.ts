/**
 * @file The tasks that an order names: what becomes of them, what the order is answered, and why one is refused.
 *
 * Of an array whose tasks have begun, and of one that waits for other jobs before that.
 */

import type { ArrayRule } from "../../domain/job/job.ts";
import {
  checkTaskRanges,
  formatTaskRanges,
  parseTaskRanges,
  selectedTasks,
} from "../../domain/job/task-ranges.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { TaskOrder, TaskOrderAnswer } from "../../protocol/job.ts";
import type { OrderRefusal } from "../job/order-refusal.ts";
import { changeTasks, endTask, forgetFailures, returnTask } from "./task-changes.ts";
import { openTable, stateOf, type TaskTable } from "./task-table.ts";

/** Tasks that an answer names at most, at up to 8 characters each. */
const MAX_SKIPPED_NAMED = 2_000;

/** Those that are not to run have ended before they began. */
export function openTasks(rule: ArrayRule): TaskTable {
  const table = openTable(rule.count);
  if (rule.tasks === undefined) return table;
  const selected = new Set(selectedTasks(rule));
  return changeTasks(table, (changes) => {
    for (let task = 0; task < rule.count; task += 1)
      if (!selected.has(task)) endTask(changes, task, { state: "cancelled" });
  }).tasks;
}

/** Refuses an order that names no tasks of the array. */
export function refuseUnnamed(
  { jobId, count }: { readonly jobId: JobId; readonly count: number },
  order: unknown,
): OrderRefusal | undefined {
  const named = typeof order === "object" && order !== null && "tasks" in order ? order.tasks : "";
  const wrong = checkTaskRanges(String(named), count);
  if (wrong === undefined) return undefined;
  return { code: "BAD_INPUT", message: `tasks of ${jobId}: ${wrong.message}; ${wrong.remedy}` };
}

/** The answer to an order to cancel tasks, before the order is fed. */
export function cancelAnswer(tasks: TaskTable, order: TaskOrder): TaskOrderAnswer {
  const { waiting, running, ended } = tasksOf(tasks, order);
  return { done: waiting.length, stopping: running.length, ...skipping(ended) };
}

/** The answer to an order to run tasks again, before the order is fed. */
export function retryAnswer(tasks: TaskTable, order: TaskOrder): TaskOrderAnswer {
  const { named, ended } = tasksOf(tasks, order);
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

/** Those that wait will never start; those that run are left alone. */
export const withCancelled = (table: TaskTable, order: TaskOrder): TaskTable =>
  changeTasks(table, (changes) => {
    for (const task of tasksOf(table, order).waiting)
      endTask(changes, task, { state: "cancelled" });
  }).tasks;

/** Those that have ended wait again, as if they had never been started. */
export const withRenewed = (table: TaskTable, order: TaskOrder): TaskTable =>
  changeTasks(table, (changes) => {
    for (const task of tasksOf(table, order).ended) {
      forgetFailures(changes, task);
      returnTask(changes, task, {});
    }
  }).tasks;

interface NamedTasks {
  readonly named: readonly number[];
  readonly waiting: readonly number[];
  readonly running: readonly number[];
  readonly ended: readonly number[];
}

export function tasksOf(tasks: TaskTable, order: TaskOrder): NamedTasks {
  const read = parseTaskRanges(String(order.tasks), tasks.count);
  const named = read.kind === "read" ? read.value : [];
  const waiting = named.filter((task) => stateOf(tasks, task) === "waiting");
  const running = named.filter((task) => stateOf(tasks, task) === "running");
  const isOpen = new Set([...waiting, ...running]);
  return { named, waiting, running, ended: named.filter((task) => !isOpen.has(task)) };
}
