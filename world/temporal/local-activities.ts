/**
 * @file The local activities of one workflow task: they run in the worker, beside the task, and their answers are fed one at a time.
 *
 * A failed one comes again after a growing pause. One that had no answer when its worker died is run again by the next worker.
 */

import type { Kernel } from "../kernel/kernel.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";

const RETRY_MS = 200;
const RETRY_MAX_MS = 10_000;

export interface LocalAnswer<Event> {
  /** Of the command. */
  readonly number: number;
  readonly event: Event;
}

export interface LocalActivities<Event> {
  /** `attempt` makes one try. */
  readonly start: (number: number, attempt: () => Task<Event | undefined>) => void;
  readonly isAnyOpen: () => boolean;
  /** The next answer; undefined when none has come by then. */
  readonly next: (untilMs: number) => Task<LocalAnswer<Event> | undefined>;
}

export function createLocalActivities<Event>(
  kernel: Kernel,
  process: Process,
): LocalActivities<Event> {
  const open = new Set<number>();
  const answered: LocalAnswer<Event>[] = [];
  let notify = (): void => undefined;
  return {
    start: (number, attempt) => {
      open.add(number);
      process.spawn(retried(kernel, attempt), (event) => {
        answered.push({ number, event });
        notify();
      });
    },
    isAnyOpen: () => open.size > 0,
    *next(untilMs) {
      if (answered.length === 0)
        yield (resume) => {
          notify = () => resume();
          kernel.after(untilMs - kernel.nowMs(), () => resume());
        };
      notify = () => undefined;
      const answer = answered.shift();
      if (answer !== undefined) open.delete(answer.number);
      return answer;
    },
  };
}

function* retried<Event>(kernel: Kernel, attempt: () => Task<Event | undefined>): Task<Event> {
  for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, RETRY_MAX_MS)) {
    const answer = yield* attempt();
    if (answer !== undefined) return answer;
    yield* sleep(kernel, pauseMs);
  }
}
