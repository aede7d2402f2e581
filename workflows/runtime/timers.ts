/**
 * @file The timers behind a machine's time: an alarm that follows the clocks that the machine sets, or timers that follow the times at which it is due.
 *
 * An alarm sets one timer for each clock, so a replay sets the same ones even if events come later there (`clockOf` in `machines/machine.ts`).
 * The other timers are fewer: when a state is due earlier than before, the timer for the later time stays; when it is due later, the timers
 * before that are cancelled. So a deadline costs one timer, however often the state changes meanwhile.
 */

import { CancellationScope, sleep } from "@temporalio/workflow";
import type { Clock } from "../../machines/machine.ts";

export interface Alarm {
  /** Cancels the timer. */
  readonly stop: () => void;
  /** Sets a timer for the clock instead of the last one, unless it has one. */
  readonly set: (clock: Clock | undefined) => void;
  readonly hasRung: () => boolean;
}

/** The timer of the one clock that a machine has set. */
export function createAlarm(): Alarm {
  let set: Clock | undefined;
  let rung: Clock | undefined;
  let scope: CancellationScope | undefined;
  /** The last timer has rung or is cancelled. */
  let isOver = Promise.resolve();
  const stop = (): void => {
    scope?.cancel();
    [set, scope] = [undefined, undefined];
  };
  return {
    stop,
    set(clock) {
      if (clock === set) return;
      stop();
      if (clock === undefined) return;
      set = clock;
      const own = new CancellationScope();
      scope = own;
      isOver = isOver
        .then(() => own.run(() => sleep(Math.max(1, clock.atMs - Date.now()))))
        .then(
          () => void (rung = clock),
          // Only `stop` cancels it.
          () => undefined,
        );
    },
    hasRung: () => set !== undefined && rung === set,
  };
}

export interface Timers {
  /** Sets a timer for that time, unless there is one, and cancels those before it. */
  readonly arm: (dueAtMs: number) => void;
  /** How many timers have rung. */
  readonly rings: () => number;
}

interface Timer {
  readonly dueAtMs: number;
  readonly scope: CancellationScope;
}

export function createTimers(): Timers {
  /** Latest first. */
  const armed: Timer[] = [];
  let rings = 0;
  return { arm, rings: () => rings };

  function arm(dueAtMs: number): void {
    while ((armed.at(-1)?.dueAtMs ?? Infinity) < dueAtMs) armed.pop()?.scope.cancel();
    if (dueAtMs >= (armed.at(-1)?.dueAtMs ?? Infinity)) return;
    const timer = { dueAtMs, scope: new CancellationScope() };
    armed.push(timer);
    const ringing = timer.scope.run(() => sleep(Math.max(1, dueAtMs - Date.now())));
    ringing.then(
      () => {
        armed.splice(armed.indexOf(timer), 1);
        rings += 1;
      },
      // Only `arm` cancels it.
      () => undefined,
    );
  }
}
