/** @file A job as lists show it, the states that it can be listed by, and its state from what Temporal knows of its workflow. */

import { OrbweaverError } from "../domain/values/failure.ts";
import type { Labels } from "../domain/job/job-labels.ts";
import type { ClusterId, HostId, JobId } from "../domain/values/ids.ts";
import type { PendingReason } from "../domain/lease/pending.ts";
import type { ArrayMemo, CellMemo, JobState } from "../protocol/messages.ts";
import { closedState, type ClosedState } from "../protocol/closed-state.ts";

export interface ListedJob {
  readonly jobId: JobId;
  readonly state: ListedState | ClosedState;
  /** These three are absent of a job that a plain Temporal client submitted. */
  readonly name?: string;
  readonly user?: string;
  readonly labels?: Labels;
  readonly class?: string;
  readonly tenant?: string;
  /** GPUs that the job holds or, while it waits, requests. */
  readonly gpus?: number;
  /** Types of the GPUs that it holds or, while it waits, names; absent when neither is known. */
  readonly gpuTypes?: readonly string[];
  /** Of a job that waits or runs, where the fleet answers. */
  readonly priority?: number;
  /** Of a gang that is smaller than the job asked for: its full size. */
  readonly gpusRequested?: number;
  /** The job that its GPUs are being taken for; the job itself when it is to restart with more of them. */
  readonly preemptedFor?: JobId;
  /** The clusters of its last run. */
  readonly clusters: readonly ClusterId[];
  /** Hosts of its present leases. */
  readonly hosts: readonly HostId[];
  readonly submittedAtMs: number;
  /** Time of its present lease. */
  readonly grantedAtMs?: number;
  readonly endedAtMs?: number;
  /** Of a job array: progress of its tasks, to about a twentieth. */
  readonly tasks?: ArrayMemo;
  /** The fleet's present reason for its waiting, or its own while it waits for other jobs. */
  readonly pending?: PendingReason;
  /**
   * The fleet that has its request or its run, or had its last run; jobs of this fleet that moved to another fleet are listed
   * too.
   */
  readonly fleet?: string;
  /** Of a job that has moved to another fleet: the time of the last move. */
  readonly moved?: CellMemo;
}

/** The state of a job from its workflow's status and the last state that it wrote (`said`). */
export function stateOf(status: string, said: string | undefined): ListedJob["state"] {
  return closedState(status) ?? (isListedState(said) ? said : "pending");
}

/** The states that jobs can be listed by. */
export const JOB_STATES = [
  "pending",
  "held",
  "running",
  "completed",
  "failed",
  "cancelled",
] as const satisfies readonly JobState[];

export type ListedState = (typeof JOB_STATES)[number];

function isListedState(text: string | undefined): text is ListedState {
  const states: readonly string[] = JOB_STATES;
  return text !== undefined && states.includes(text);
}

/** Parses the state of a filter that a user wrote. */
export function parseJobState(text: string): ListedState {
  if (isListedState(text)) return text;
  throw new OrbweaverError(
    "BAD_INPUT",
    `${JSON.stringify(text)} is not a state to list jobs by. Use ${JOB_STATES.join(", ")}; a job that is being stopped is listed as running.`,
  );
}

const ENDED: ReadonlySet<ListedState> = new Set(["completed", "failed", "cancelled"]);

export const isEndedState = (state: ListedState): boolean => ENDED.has(state);
