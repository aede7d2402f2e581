/**
 * @file Changes of an array's table of tasks: each chunk is copied at its first change, and the former table stays as it was.
 *
 * Nothing outside `changeTasks` sees the copies before they are complete.
 * Cost: O(tasks / 256) to open, O(256) for each chunk that changes, O(1) for each change.
 */

import type { TaskEnd } from "../../protocol/agent-contract.ts";
import { TASK_STATES, type TaskCounts, type TaskState } from "../../protocol/job.ts";
import { changedQueue, changeQueue, nextTask, type QueueChange } from "./task-queue.ts";
import {
  CHUNK_TASKS,
  chunkOf,
  NO_EXIT_CODE,
  stateOf,
  type TaskChunk,
  type TaskPlace,
  type TaskTable,
  type TaskText,
} from "./task-table.ts";

/** Failed tasks whose last lines are kept; the output itself is on the hosts. */
export const MAX_TEXTS = 1_000;
const MAX_FAILURES = 255;

export interface TaskChanges {
  readonly count: number;
  readonly chunks: TaskChunk[];
  /** Chunks that are copies of this change's own, by their number. */
  readonly own: Map<number, OwnChunk>;
  readonly counts: Record<TaskState, number>;
  available: number;
  readonly queue: QueueChange;
  places: readonly TaskPlace[];
  textCount: number;
}

interface OwnChunk extends TaskChunk {
  readonly states: Uint8Array;
  readonly queued: Uint8Array;
  readonly attempts: Uint16Array;
  readonly charged: Uint8Array;
  readonly uncharged: Uint8Array;
  readonly exitCodes: Int16Array;
  readonly places: Int32Array;
  readonly startedAtMs: Float64Array;
  readonly endedAtMs: Float64Array;
  readonly texts: Map<number, TaskText>;
}

/** The table with those changes, and what `change` answers. */
export function changeTasks<Answer>(
  table: TaskTable,
  change: (changes: TaskChanges) => Answer,
): { readonly tasks: TaskTable; readonly answer: Answer } {
  const { count, chunks, counts, available, queue, places, textCount } = table;
  const changes: TaskChanges = {
    count,
    chunks: [...chunks],
    own: new Map(),
    counts: { ...counts },
    available,
    queue: changeQueue(queue),
    places,
    textCount,
  };
  const answer = change(changes);
  const tasks: TaskTable = {
    count,
    chunks: changes.chunks,
    counts: changes.counts satisfies TaskCounts,
    available: changes.available,
    queue: changedQueue(changes.queue),
    places: changes.places,
    textCount: changes.textCount,
  };
  return { tasks, answer };
}

/** Hands out the next tasks; they count as running from here on. */
export function takeTasks(changes: TaskChanges, most: number, place: TaskPlace): readonly number[] {
  const tasks: number[] = [];
  if (changes.available === 0) return tasks;
  const placeAt = changes.places.length;
  changes.places = [...changes.places, place];
  while (tasks.length < most) {
    const task = nextTask(changes.queue, changes.count);
    if (task === undefined) break;
    const { chunk, at } = ownRow(changes, task);
    const isWaiting = stateOf(changes, task) === "waiting";
    if (isWaiting) move(changes, task, "running");
    chunk.queued[at] = 0;
    // It was cancelled while it was in the queue.
    if (!isWaiting) continue;
    chunk.places[at] = placeAt;
    chunk.startedAtMs[at] = 0;
    chunk.endedAtMs[at] = 0;
    tasks.push(task);
  }
  return tasks;
}

/** A start that ended the task, or the order that did. */
export function endTask(
  changes: TaskChanges,
  task: number,
  { state, how }: { readonly state: "completed" | "failed" | "cancelled"; readonly how?: TaskEnd },
): void {
  const { chunk, at } = ownRow(changes, task);
  if (how?.startedAtMs !== undefined) chunk.attempts[at] = (chunk.attempts[at] ?? 0) + 1;
  chunk.startedAtMs[at] = how?.startedAtMs ?? 0;
  chunk.endedAtMs[at] = how?.endedAtMs ?? 0;
  chunk.exitCodes[at] = how?.exitCode ?? NO_EXIT_CODE;
  if (chunk.texts.delete(task)) changes.textCount -= 1;
  const { signal, message } = how ?? {};
  if ((signal !== undefined || message !== undefined) && changes.textCount < MAX_TEXTS) {
    changes.textCount += 1;
    chunk.texts.set(task, {
      ...(signal !== undefined && { signal }),
      ...(message !== undefined && { message }),
    });
  }
  move(changes, task, state);
}

/** The task waits again; it joins the queue at once unless it is to pause first. `hasRun`: the start counts as an attempt. */
export function returnTask(
  changes: TaskChanges,
  task: number,
  { isPaused = false, hasRun = false }: { readonly isPaused?: boolean; readonly hasRun?: boolean },
): void {
  const { chunk, at } = ownRow(changes, task);
  if (hasRun) chunk.attempts[at] = (chunk.attempts[at] ?? 0) + 1;
  move(changes, task, "waiting");
  if (!isPaused) joinQueue(changes, task);
}

/** The task has paused long enough; nothing changes where it does not wait any more. */
export function joinQueue(changes: TaskChanges, task: number): void {
  const { chunk, at } = ownRow(changes, task);
  if (chunk.queued[at] === 1 || stateOf(changes, task) !== "waiting") return;
  chunk.queued[at] = 1;
  changes.available += 1;
  changes.queue.joined.push(task);
}

/** Counts one more failure, and answers how many of its kind there were. */
export function countFailure(changes: TaskChanges, task: number, cause: "task" | "host"): number {
  const { chunk, at } = ownRow(changes, task);
  const column = cause === "task" ? chunk.charged : chunk.uncharged;
  const failures = Math.min(MAX_FAILURES, (column[at] ?? 0) + 1);
  column[at] = failures;
  return failures;
}

export function forgetFailures(changes: TaskChanges, task: number): void {
  const { chunk, at } = ownRow(changes, task);
  chunk.charged[at] = 0;
  chunk.uncharged[at] = 0;
}

function move(changes: TaskChanges, task: number, state: TaskState): void {
  const { chunk, at } = ownRow(changes, task);
  const before = stateOf(changes, task);
  const isQueued = chunk.queued[at] === 1;
  if (before === "waiting" && isQueued) changes.available -= 1;
  if (state === "waiting" && isQueued) changes.available += 1;
  changes.counts[before] -= 1;
  changes.counts[state] += 1;
  chunk.states[at] = TASK_STATES.indexOf(state);
}

interface OwnRow {
  readonly chunk: OwnChunk;
  readonly at: number;
}

function ownRow(changes: TaskChanges, task: number): OwnRow {
  const number = chunkOf(task);
  const known = changes.own.get(number);
  const at = task % CHUNK_TASKS;
  if (known !== undefined) return { chunk: known, at };
  const chunk = copyOf(changes.chunks[number]);
  changes.own.set(number, chunk);
  changes.chunks[number] = chunk;
  return { chunk, at };
}

function copyOf(chunk: TaskChunk | undefined): OwnChunk {
  if (chunk === undefined) throw new Error("a task that the array does not have was changed");
  return {
    states: Uint8Array.from(chunk.states),
    queued: Uint8Array.from(chunk.queued),
    attempts: Uint16Array.from(chunk.attempts),
    charged: Uint8Array.from(chunk.charged),
    uncharged: Uint8Array.from(chunk.uncharged),
    exitCodes: Int16Array.from(chunk.exitCodes),
    places: Int32Array.from(chunk.places),
    startedAtMs: Float64Array.from(chunk.startedAtMs),
    endedAtMs: Float64Array.from(chunk.endedAtMs),
    texts: new Map(chunk.texts),
  };
}
