/**
 * @file When a fleet next estimates starts: at the times of a fixed grid, one at a time, and at none that passed while nobody waited.
 *
 * A time that passed unused is not made up for: whoever asked when the first job comes would ask at the beginning of queues only
 * (scheduling/foresight-clock.ts).
 */

import { nextForesightAtMs } from "../scheduling/apply.ts";
import type { Ledger } from "../scheduling/ledger.ts";

export interface FleetForesight {
  /** Infinite while nobody waits, or one is being made. */
  readonly nextAtMs: (ledger: Ledger) => number;
  /** The ledger was like this until now. */
  readonly looked: (ledger: Ledger, nowMs: number) => void;
  /** One is being made from here on, */
  readonly asks: () => void;
  /** up to here. */
  readonly asked: (nowMs: number) => void;
}

export function openForesight(startMs: number): FleetForesight {
  let doneUpToMs = startMs;
  let isAsking = false;
  return {
    nextAtMs: (ledger) => (isAsking ? Infinity : nextForesightAtMs(ledger, doneUpToMs)),
    looked(ledger, nowMs) {
      if (nextForesightAtMs(ledger, doneUpToMs) === Infinity) doneUpToMs = nowMs;
    },
    asks() {
      isAsking = true;
    },
    asked(nowMs) {
      isAsking = false;
      doneUpToMs = nowMs;
    },
  };
}
