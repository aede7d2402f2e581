/** @file How a job has ended, from the status of its workflow. */

export type ClosedState = "completed" | "failed" | "cancelled" | "terminated" | "timed-out";

const STATES: ReadonlyMap<string, ClosedState> = new Map([
  ["COMPLETED", "completed"],
  ["FAILED", "failed"],
  ["CANCELLED", "cancelled"],
  ["TERMINATED", "terminated"],
  ["TIMED_OUT", "timed-out"],
]);

/** Undefined of a workflow that has not ended. */
export const closedState = (status: string): ClosedState | undefined => STATES.get(status);
