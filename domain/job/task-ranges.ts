/**
 * @file Parses and prints tasks of a job array as `3,7-9`.
 *
 * A task named twice counts once; an unknown task is refused. Cost: O(tasks named).
 */

import type { Reading, RefusedValue } from "../values/quantity.ts";

/** A whole array is one workflow: its history and its memory must hold every task. */
export const MAX_TASKS = 1_000_000;

const REMEDY = "write tasks such as 3 or 3,7-9";

/** The named tasks, in order and each once; the array has `count` tasks, numbered from 0. */
export function parseTaskRanges(text: string, count: number): Reading<readonly number[]> {
  const tasks = new Set<number>();
  for (const part of text.split(",").map((each) => each.trim())) {
    const found = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part);
    if (found === null) return refused(`${JSON.stringify(part)} is no task`, REMEDY);
    const first = Number(found[1]);
    const last = Number(found[2] ?? found[1]);
    if (last < first) return refused(`${part} ends before it begins`, `write ${last}-${first}`);
    if (last >= count)
      return refused(`there is no task ${last}`, `the array has tasks 0 to ${count - 1}`);
    for (let task = first; task <= last; task += 1) tasks.add(task);
  }
  return { kind: "read", value: [...tasks].sort((a, b) => a - b) };
}

/** The same for the file of a job, which anybody may have written: what names tasks again and again costs no time. */
export function checkTaskRanges(text: string, count: number): RefusedValue | undefined {
  const ranges = [...text.matchAll(/(\d{1,9})(?:-(\d{1,9}))?/g)];
  const named = ranges.reduce((sum, [, first, last]) => {
    return sum + Math.max(0, Number(last ?? first) - Number(first)) + 1;
  }, 0);
  const most = Math.min(count, MAX_TASKS);
  if (named > most) return refused(`${named} tasks are named of ${count}`, "name each once");
  const read = parseTaskRanges(text, count);
  return read.kind === "refused" ? read : undefined;
}

/** The tasks of an array that are to run; the text was parsed before. */
export function selectedTasks({
  count,
  tasks,
}: {
  readonly count: number;
  readonly tasks?: string;
}): readonly number[] {
  if (tasks === undefined) return Array.from({ length: count }, (_, task) => task);
  const read = parseTaskRanges(tasks, count);
  return read.kind === "read" ? read.value : [];
}

// Not from schema-leaf.ts, because workflows load this file and must not load zod.
const refused = (message: string, remedy: string): RefusedValue => ({
  kind: "refused",
  message,
  remedy,
});

/** `[3, 7, 8, 9]` → `3,7-9`; tasks are in order. */
export function formatTaskRanges(tasks: readonly number[]): string {
  const parts: string[] = [];
  for (let at = 0; at < tasks.length;) {
    const first = tasks[at] ?? 0;
    let last = first;
    while (tasks[at + 1] === last + 1) {
      at += 1;
      last += 1;
    }
    parts.push(first === last ? String(first) : `${first}-${last}`);
    at += 1;
  }
  return parts.join(",");
}
