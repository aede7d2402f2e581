/** @file What an array changes of itself in Temporal's lists: its search attributes, three times at most, and its memo, some twenty times. */

import type { JobState } from "../../protocol/job.ts";
import { mayMark } from "../job/marks.ts";
import { quiet } from "../steps.ts";
import type { ArrayStep, JobArray } from "./array-state.ts";

/** Changes of the memo in the life of an array, about; each is an event. */
const MEMO_STEPS = 20;

export function mark(
  array: JobArray,
  state: JobState,
  clusters: readonly string[] = [],
): ArrayStep {
  if (!mayMark(array.marks, state)) return quiet(array);
  return {
    state: { ...array, marks: array.marks + 1 },
    commands: [{ kind: "mark", mark: { state, ...(clusters.length > 0 && { clusters }) } }],
  };
}

/** Changes the memo where enough tasks have ended since its last change. */
export function memoizeSome(array: JobArray): ArrayStep {
  const isDue = endedTasks(array) - array.memoAt >= array.rule.count / MEMO_STEPS;
  return isDue ? memoize(array) : quiet(array);
}

export function memoize(array: JobArray): ArrayStep {
  const { tasks, rule } = array;
  return {
    state: { ...array, memoAt: endedTasks(array) },
    commands: [{ kind: "memo", memo: { count: rule.count, ...tasks.counts } }],
  };
}

const endedTasks = ({ tasks: { counts } }: JobArray): number =>
  counts.completed + counts.failed + counts.cancelled;
