/** @file A scheduler under a stopwatch: the wall time of its decisions and its processor time, apart from the simulated clock. */

import { schedulerBut, type OpenScheduler } from "../../simulator/scheduler.ts";

export interface Stopwatch {
  /** Of each decision with the folding of its plan, in order. */
  readonly decisionMs: number[];
}

export const newStopwatch = (): Stopwatch => ({ decisionMs: [] });

/** It decides exactly as the scheduler inside: no measured time reaches the simulation. */
export const timed =
  (open: OpenScheduler, { decisionMs }: Stopwatch): OpenScheduler =>
  (ledger) => {
    const scheduler = open(ledger);
    let decideMs = 0;
    return schedulerBut(scheduler, {
      decide(nowMs) {
        const startMs = performance.now();
        const plan = scheduler.decide(nowMs);
        decideMs = performance.now() - startMs;
        return plan;
      },
      apply(event) {
        const startMs = performance.now();
        const applied = scheduler.apply(event);
        if (event.kind === "plan") decisionMs.push(decideMs + performance.now() - startMs);
        return applied;
      },
    });
  };
