/**
 * @file Parses tasks of a job array as `3,7-9,20-40:5` (every fifth from 20 to 40), and prints them as `3,7-9`.
 *
 * A task named twice counts once; an unknown task is refused. Cost: O(tasks named).
 */

import type { Reading, RefusedValue } from "../values/quantity.ts";

/** A whole array is one workflow: its history and its memory must hold every task. */
export const MAX_TASKS = 1_000_000;
/** Of a job file. Each second task of a few thousand; more are written as ranges. Those of steps count as written out. */
export const MAX_TASKS_CHARS: number = 16 * 1024;

const REMEDY = "write tasks such as 3, 3,7-9 or 0-99:5";
/** First, last, and the step from one to the next. */
const RANGE = String.raw`(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?`;
const WHOLE_RANGE = new RegExp(`^${RANGE}$`);
const EACH_RANGE = new RegExp(RANGE, "g");

/** The named tasks, in order and each once; the array has `count` tasks, numbered from 0. */
export function parseTaskRanges(text: string, count: number): Reading<readonly number[]> {
  const tasks = new Set<number>();
  for (const part of text.split(",").map((each) => each.trim())) {
    const found = WHOLE_RANGE.exec(part);
    if (found === null) {
      const remedy = part.includes("%") ? "write what follows the % as array.parallel" : REMEDY;
      return refused(`${JSON.stringify(part)} is no task`, remedy);
    }
    const { first, last, step } = rangeOf(found);
    if (step < 1) return refused(`${part} has a step of 0`, "write a step from 1 on");
    if (last < first) return refused(`${part} ends before it begins`, `write ${last}-${first}`);
    if (last >= count)
      return refused(`there is no task ${last}`, `the array has tasks 0 to ${count - 1}`);
    for (let task = first; task <= last; task += step) tasks.add(task);
  }
  return { kind: "read", value: [...tasks].sort((a, b) => a - b) };
}

/** Of `0-99:5` it is 99, which is no task of it; the text was parsed before. */
export const highestNumber = (text: string): number =>
  [...text.matchAll(EACH_RANGE)].reduce((most, found) => Math.max(most, rangeOf(found).last), 0);

const rangeOf = ([, first, last = first, step = "1"]: RegExpMatchArray) => ({
  first: Number(first),
  last: Number(last),
  step: Number(step),
});

/**
 * The same for what anybody may have written: what names tasks again and again costs no time. Replay checks orders again, so nothing may be refused that a former
 * release has let pass.
 */
function readTaskRanges(text: string, count: number): Reading<readonly number[]> {
  const named = [...text.matchAll(EACH_RANGE)].map(rangeOf).reduce((sum, { first, last, step }) => {
    return sum + Math.floor(Math.max(0, last - first) / Math.max(1, step)) + 1;
  }, 0);
  const most = Math.min(count, MAX_TASKS);
  return named > most
    ? refused(`${named} tasks are named of ${count}`, "name each once")
    : parseTaskRanges(text, count);
}

export function checkTaskRanges(text: string, count: number): RefusedValue | undefined {
  const read = readTaskRanges(text, count);
  return read.kind === "refused" ? read : undefined;
}

/** Tasks of an order in the words of former releases, whose workers may have to replay it: without steps. What is refused, or would be long, stays as it is. */
export function withoutSteps(text: string): string {
  if (!text.includes(":")) return text;
  const read = readTaskRanges(text, MAX_TASKS);
  if (read.kind === "refused") return text;
  const written = formatTaskRanges(read.value);
  return written.length <= MAX_TASKS_CHARS ? written : text;
}

/** As `checkTaskRanges`, for a job file: the job keeps its tasks written out. */
export function checkTasksOfFile(text: string, count: number): RefusedValue | undefined {
  const read = readTaskRanges(text, count);
  if (read.kind === "refused") return read;
  const chars = formatTaskRanges(read.value).length;
  if (chars <= MAX_TASKS_CHARS) return undefined;
  const message = `${read.value.length} tasks written out have ${chars} characters, more than ${MAX_TASKS_CHARS}`;
  return refused(message, "submit several arrays");
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
