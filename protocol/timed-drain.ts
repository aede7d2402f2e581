/** @file Drains that begin at a time: one workflow a host, started with a delay, so that the server keeps the time. */

import type { HostId } from "../domain/values/ids.ts";

export const TIMED_DRAIN_WORKFLOW = "timed-drain";

export const TIMED_DRAIN_RULES = 1;

export interface TimedDrainInput {
  readonly rules: number;
  readonly fleetWorkflowId: string;
  readonly host: HostId;
  readonly reason: string;
  /** Of who planned it, over the order, dated at its time: nobody can plan a drain who may not give one. */
  readonly proof: string;
}

/** The memo of such a workflow. */
export interface PlannedDrain {
  readonly host: HostId;
  readonly atMs: number;
  readonly reason: string;
  /** Who planned it. */
  readonly by: string;
}

export const PLANNED_DRAIN_MEMO = "orbweaverPlannedDrain";

export const timedDrainWorkflowId = (fleet: string, host: HostId): string =>
  `orbweaver-drain-${fleet}-${host}`;
