/**
 * @file The tasks of an array: where each stands, how often it was started, and which are next.
 *
 * A persistent table: an array may have 1,000,000 tasks, so a step copies only the chunks of 256 tasks that it changes (task-changes.ts), and
 * a former state stays as it was. Chunks are typed arrays, some 30 bytes a task; chunks that were never changed are one object.
 * Cost: O(tasks looked at) a page, where chunks without a task in the state asked for count as one; O(1) each other question.
 */

import type { TaskEnd } from "../../protocol/agent-contract.ts";
import {
  TASK_STATES,
  type TaskCounts,
  type TaskQuery,
  type TaskState,
  type TaskView,
} from "../../protocol/job.ts";
import { NEW_QUEUE, type TaskQueue } from "./task-queue.ts";

/** Where tasks were sent: a lease. */
export type TaskPlace = Pick<TaskView, "host" | "leaseId" | "orderQueue">;

export interface TaskTable {
  readonly count: number;
  readonly chunks: readonly TaskChunk[];
  readonly counts: TaskCounts;
  /** Tasks that may be handed out now. */
  readonly available: number;
  readonly queue: TaskQueue;
  /** One for each batch. */
  readonly places: readonly TaskPlace[];
  /** Tasks that have a text. */
  readonly textCount: number;
}

/** Columns of tasks in a row; a task's place in them is its number modulo `CHUNK_TASKS`. */
export interface TaskChunk {
  /** Indices into `TASK_STATES`. */
  readonly states: ArrayLike<number> & Pick<Uint8Array, "includes">;
  /** 1: the task is in the queue, or was left there when it was cancelled. */
  readonly queued: ArrayLike<number>;
  readonly attempts: ArrayLike<number>;
  /** Failures that the retry rule counts, and those that hosts caused. */
  readonly charged: ArrayLike<number>;
  readonly uncharged: ArrayLike<number>;
  readonly exitCodes: ArrayLike<number>;
  /** Indices into the table's `places`. */
  readonly places: ArrayLike<number>;
  readonly startedAtMs: ArrayLike<number>;
  readonly endedAtMs: ArrayLike<number>;
  readonly texts: ReadonlyMap<number, TaskText>;
}

export type TaskText = Pick<TaskEnd, "signal" | "message">;

export const CHUNK_TASKS = 256;
export const NO_EXIT_CODE = -1;
const NO_PLACE = -1;

export function openTable(count: number): TaskTable {
  const size = Math.min(CHUNK_TASKS, count);
  const fresh: TaskChunk = {
    states: new Uint8Array(size),
    queued: new Uint8Array(size).fill(1),
    attempts: new Uint16Array(size),
    charged: new Uint8Array(size),
    uncharged: new Uint8Array(size),
    exitCodes: new Int16Array(size).fill(NO_EXIT_CODE),
    places: new Int32Array(size).fill(NO_PLACE),
    startedAtMs: new Float64Array(size),
    endedAtMs: new Float64Array(size),
    texts: new Map(),
  };
  return {
    count,
    chunks: Array.from({ length: Math.ceil(count / CHUNK_TASKS) }, () => fresh),
    counts: { waiting: count, running: 0, completed: 0, failed: 0, cancelled: 0 },
    available: count,
    queue: NEW_QUEUE,
    places: [],
    textCount: 0,
  };
}

export const chunkOf = (task: number): number => Math.floor(task / CHUNK_TASKS);

export const stateOf = ({ chunks }: Pick<TaskTable, "chunks">, task: number): TaskState =>
  TASK_STATES[chunks[chunkOf(task)]?.states[task % CHUNK_TASKS] ?? 0] ?? "waiting";

/** Whether every task has its final state. */
export const hasEnded = ({ counts }: TaskTable): boolean => counts.waiting + counts.running === 0;

export function taskPage(table: TaskTable, { from, count, state }: TaskQuery): readonly TaskView[] {
  const views: TaskView[] = [];
  const wanted = state === undefined ? undefined : TASK_STATES.indexOf(state);
  for (let task = from; task < table.count && views.length < count;) {
    const isOver = wanted !== undefined && !table.chunks[chunkOf(task)]?.states.includes(wanted);
    if (isOver) {
      task = (chunkOf(task) + 1) * CHUNK_TASKS;
      continue;
    }
    if (state === undefined || stateOf(table, task) === state) views.push(taskView(table, task));
    task += 1;
  }
  return views;
}

export const firstFailed = (table: TaskTable, most: number): readonly TaskView[] =>
  table.counts.failed === 0 ? [] : taskPage(table, { from: 0, count: most, state: "failed" });

function taskView(table: TaskTable, task: number): TaskView {
  const chunk = table.chunks[chunkOf(task)];
  const at = task % CHUNK_TASKS;
  const exitCode = chunk?.exitCodes[at] ?? NO_EXIT_CODE;
  const place = table.places[chunk?.places[at] ?? NO_PLACE];
  const startedAtMs = chunk?.startedAtMs[at] ?? 0;
  const endedAtMs = chunk?.endedAtMs[at] ?? 0;
  const { signal, message } = chunk?.texts.get(task) ?? {};
  return {
    task,
    state: stateOf(table, task),
    attempts: chunk?.attempts[at] ?? 0,
    ...place,
    ...(startedAtMs > 0 && { startedAtMs }),
    ...(endedAtMs > 0 && { endedAtMs }),
    ...(exitCode !== NO_EXIT_CODE && { exitCode }),
    ...(signal !== undefined && { signal }),
    ...(message !== undefined && { message }),
  };
}
