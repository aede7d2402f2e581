/**
 * @file The order in which the tasks of an array are handed out: tasks that came back first, then those never handed out, by number.
 *
 * So an array does not keep its trouble for the end. Tasks that come back together are one segment, in order of their return.
 * Persistent: a change copies the list of segments, of which there are at most as many as batches that came back.
 */

export interface TaskQueue {
  /** The lowest task that was never handed out. */
  readonly nextFresh: number;
  /** Tasks that came back, oldest first, in segments. */
  readonly returned: readonly (readonly number[])[];
  /** How many tasks of the first segment have been handed out again. */
  readonly offset: number;
}

export const NEW_QUEUE: TaskQueue = { nextFresh: 0, returned: [], offset: 0 };

/** A queue while it changes; tasks that come back meanwhile join the last segment. */
export interface QueueChange {
  nextFresh: number;
  offset: number;
  readonly returned: (readonly number[])[];
  readonly joined: number[];
}

export function changeQueue({ nextFresh, offset, returned }: TaskQueue): QueueChange {
  const joined: number[] = [];
  return { nextFresh, offset, returned: [...returned, joined], joined };
}

/** Takes out the next task of `count`; undefined when the queue is empty. */
export function nextTask(queue: QueueChange, count: number): number | undefined {
  for (;;) {
    const [first = queue.joined] = queue.returned;
    const task = first[queue.offset];
    if (task !== undefined) {
      queue.offset += 1;
      return task;
    }
    if (first === queue.joined) break;
    queue.returned.shift();
    queue.offset = 0;
  }
  if (queue.nextFresh >= count) return undefined;
  queue.nextFresh += 1;
  return queue.nextFresh - 1;
}

export function changedQueue({ nextFresh, offset, returned, joined }: QueueChange): TaskQueue {
  const isEmpty = returned[0] === joined && offset === joined.length;
  if (isEmpty) return { ...NEW_QUEUE, nextFresh };
  return { nextFresh, offset, returned: returned.filter((segment) => segment.length > 0) };
}
