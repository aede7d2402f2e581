/**
 * @file Bounded concurrency in turns: of the tasks that wait for a lane, one of each key starts before a second of any.
 *
 * Within a key the order is that of the calls. Cost: O(1) a task.
 */

export interface FairLanes {
  /** Runs the task as soon as a lane is free and it is this key's turn; what it gives or throws is passed on. */
  readonly run: <Given>(key: string, task: () => Promise<Given>) => Promise<Given>;
}

export function fairLanes(most: number): FairLanes {
  /** Keys in the order of their turns, each with at least one task that waits. */
  const waiting = new Map<string, (() => void)[]>();
  let busy = 0;

  function enter(key: string): Promise<void> | undefined {
    if (busy < most) {
      busy += 1;
      return undefined;
    }
    const queue = waiting.get(key) ?? [];
    waiting.set(key, queue);
    return new Promise((resolve) => queue.push(resolve));
  }

  /** The lane goes to the next task, or is free. */
  function leave(): void {
    const [turn] = waiting;
    if (turn === undefined) {
      busy -= 1;
      return;
    }
    const [key, queue] = turn;
    const start = queue.shift();
    waiting.delete(key);
    if (queue.length > 0) waiting.set(key, queue);
    start?.();
  }

  return {
    run: async (key, task) => {
      await enter(key);
      try {
        return await task();
      } finally {
        leave();
      }
    },
  };
}
