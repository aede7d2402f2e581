/**
 * @file Orders to hold, suspend and requeue: which of them a job can follow now, and what it notes of them.
 *
 * A suspended job gives up its run with a checkpoint and is held; it keeps its age. A requeued one gives up its run and asks again.
 */

import { authorIn, GIVEN_UP, type GivenUp } from "../../protocol/job-orders.ts";
import type { GangStopReason } from "../gang/gang-state.ts";
import { noteGivenUp } from "./durable-orders.ts";
import type { Job } from "./job-state.ts";

/** Of a job, or of an array. */
export interface NamedState {
  readonly jobId: string;
  readonly shown: string;
}

/** Why the job cannot be held now; undefined when it can. */
export const holdProblem = ({ jobId, shown, grant }: Job): string | undefined =>
  grant === undefined && (shown === "pending" || shown === "held")
    ? undefined
    : `job ${jobId} is ${shown}; only a waiting job can be held. Suspend or cancel it instead.`;

export const suspendProblem = ({ jobId, shown, reason, stage }: Job): string | undefined =>
  reason === undefined && stage.kind !== "over"
    ? undefined
    : `job ${jobId} is ${shown}; only a job that waits or runs can be suspended.`;

export const requeueProblem = ({ reason, grant, ...job }: Job): string | undefined =>
  reason === undefined && grant !== undefined ? undefined : notRunning(job);

export const notRunning = ({ jobId, shown }: NamedState): string =>
  `job ${jobId} is ${shown}; only a running job can be requeued. For one that has ended, use retry.`;

export function heldBy(job: Job, order: unknown, atMs: number): Job {
  const by = authorIn(order);
  const held = { ...job, isHeld: true, isReleased: false };
  if (by === undefined || job.pause?.kind === "suspend") return held;
  return { ...held, pause: { kind: "hold", by, atMs } };
}

/** A job that is held already still has to show that it was suspended. */
export function released(job: Job): Job {
  const { pause, ...rest } = job;
  const isShown = job.stage.kind === "held" && pause !== undefined;
  return { ...rest, ...(isShown && { pause }), isHeld: false, isReleased: true };
}

export function suspended(job: Job, order: unknown, atMs: number): Job {
  if (suspendProblem(job) !== undefined) return job;
  const { grant, givenUp } = job;
  if (grant === undefined && givenUp === undefined) return heldBy(job, order, atMs);
  const by = authorIn(order) ?? UNNAMED;
  const paused = { kind: "suspend", by, atMs } as const;
  return noteGivenUp({ ...job, isHeld: true, isReleased: false, pause: paused }, paused, atMs);
}

export function requeued(job: Job, order: unknown, atMs: number): Job {
  if (requeueProblem(job) !== undefined) return job;
  const by = authorIn(order) ?? UNNAMED;
  return noteGivenUp(job, job.givenUp ?? { kind: "requeue", by, atMs }, atMs);
}

export const stopReasonOf = (order: GivenUp | undefined): GangStopReason | undefined =>
  order && GIVEN_UP[order.kind];

export const UNNAMED = "somebody";
