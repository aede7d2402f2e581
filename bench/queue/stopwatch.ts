/** @file A brain that is held a stopwatch to: how long its decisions take, and how much processor time, beside the simulation's own clock. */

import { brainBut, type OpenBrain } from "../../simulator/brain.ts";

export interface Stopwatch {
  /** Of each decision with the folding of its plan, in order. */
  readonly decisionMs: number[];
}

export const newStopwatch = (): Stopwatch => ({ decisionMs: [] });

/** What it decides is what the brain decides: nothing of the time gets into the simulation. */
export const timed =
  (open: OpenBrain, { decisionMs }: Stopwatch): OpenBrain =>
  (ledger) => {
    const brain = open(ledger);
    let decideMs = 0;
    return brainBut(brain, {
      decide(nowMs) {
        const startMs = performance.now();
        const plan = brain.decide(nowMs);
        decideMs = performance.now() - startMs;
        return plan;
      },
      apply(event) {
        const startMs = performance.now();
        const applied = brain.apply(event);
        if (event.kind === "plan") decisionMs.push(decideMs + performance.now() - startMs);
        return applied;
      },
    });
  };
