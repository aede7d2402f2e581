/**
 * @file A process of the world: runs tasks that wait for events, may crash or be paused at any of these waits, and may start again.
 *
 * A task is a generator; what it yields arranges for its resumption. A crash drops all tasks, whatever they wait for; a pause holds them up.
 */

import type { Kernel } from "./kernel.ts";

/** Arranges that the task goes on, with a value. */
export type Wait = (resume: (value?: unknown) => void) => void;
export type Task<Result> = Generator<Wait, Result, unknown>;

export interface Process {
  readonly name: string;
  readonly isUp: () => boolean;
  /** Counts starts: what belongs to an earlier one is void. */
  readonly incarnation: () => number;
  readonly spawn: <Result>(task: Task<Result>, onEnd?: (result: Result) => void) => void;
  readonly crash: () => void;
  readonly start: () => void;
  readonly pause: (forMs: number) => void;
}

/** After a pause everything that has come meanwhile is there at once: in what order it is met is anybody's guess. */
const WAKE_MS = 20;

export function createProcess(
  kernel: Kernel,
  name: string,
  onStart: (process: Process) => void,
): Process {
  let isUp = false;
  let incarnation = 0;
  let pausedUntilMs = 0;
  const process: Process = {
    name,
    isUp: () => isUp,
    incarnation: () => incarnation,
    spawn: (task, onEnd) => {
      const own = incarnation;
      const goOn = (value?: unknown): void => {
        if (!isUp || own !== incarnation) return;
        if (pausedUntilMs > kernel.nowMs()) {
          const restMs = pausedUntilMs - kernel.nowMs();
          kernel.after(restMs + kernel.random.exponential(WAKE_MS), () => goOn(value));
          return;
        }
        const next = task.next(value);
        if (next.done === true) onEnd?.(next.value);
        else next.value(once(goOn));
      };
      goOn();
    },
    crash: () => {
      isUp = false;
      incarnation += 1;
    },
    start: () => {
      if (isUp) return;
      isUp = true;
      incarnation += 1;
      pausedUntilMs = 0;
      onStart(process);
    },
    pause: (forMs) => {
      pausedUntilMs = Math.max(pausedUntilMs, kernel.nowMs() + forMs);
    },
  };
  return process;
}

function once(run: (value?: unknown) => void): (value?: unknown) => void {
  let isDone = false;
  return (value) => {
    if (isDone) return;
    isDone = true;
    run(value);
  };
}

export function* sleep(kernel: Kernel, forMs: number): Task<void> {
  yield (resume) => kernel.after(forMs, resume);
}
