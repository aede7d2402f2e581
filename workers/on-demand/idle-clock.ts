/**
 * @file Decides when a worker has been idle long enough: no work in progress, and no work done for `idleMs`.
 *
 * Work is noticed in two ways: by looking at tasks in flight, and by a touch whenever a payload passes the worker, because a
 * workflow task may be shorter than the pause between two looks. The caller supplies the clock.
 */

export interface WorkInFlight {
  readonly numInFlightWorkflowActivations: number;
  /** Local ones included. */
  readonly numInFlightActivities: number;
}

export interface IdleClock {
  /** Records work at this moment. */
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
