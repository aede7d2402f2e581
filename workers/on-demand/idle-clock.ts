/**
 * @file Decides when a worker has been idle long enough: nothing in progress now, and nothing done for `idleMs`.
 *
 * Work is seen in two ways: by looking at what is in flight, and by being touched whenever a payload passes the worker (a
 * workflow task may be shorter than the pause between two looks). The clock is the caller's.
 */

export interface WorkInFlight {
  readonly numInFlightWorkflowActivations: number;
  /** Local ones included. */
  readonly numInFlightActivities: number;
}

export interface IdleClock {
  /** Something was done at this moment. */
  readonly touch: (nowMs: number) => void;
  /** Whether the worker may end. */
  readonly isIdle: (inFlight: WorkInFlight, nowMs: number) => boolean;
}

export function createIdleClock(idleMs: number, nowMs: number): IdleClock {
  let lastWorkMs = nowMs;
  return {
    touch: (atMs) => {
      lastWorkMs = atMs;
    },
    isIdle: ({ numInFlightWorkflowActivations, numInFlightActivities }, atMs) => {
      if (numInFlightWorkflowActivations + numInFlightActivities > 0) lastWorkMs = atMs;
      return atMs - lastWorkMs >= idleMs;
    },
  };
}
