/** @file Tasks that wait for a time before they join the queue again. */

import type { JobArray } from "./array-state.ts";
import { changeTasks, joinQueue } from "./task-changes.ts";

export const pause = (array: JobArray, tasks: readonly number[], untilMs: number): JobArray =>
  tasks.length === 0 ? array : { ...array, pauses: [...array.pauses, { untilMs, tasks }] };

/** Puts tasks that have paused long enough back into the queue. */
export function resume(array: JobArray, nowMs: number): JobArray {
  const due = array.pauses.filter(({ untilMs }) => untilMs <= nowMs);
  if (due.length === 0) return array;
  const { tasks } = changeTasks(array.tasks, (changes) => {
    for (const { tasks: paused } of due) for (const task of paused) joinQueue(changes, task);
  });
  return { ...array, tasks, pauses: array.pauses.filter(({ untilMs }) => untilMs > nowMs) };
}
