/**
 * @file A run that had to give up its GPUs: for which job and why, the saved and the lost work, and the text for people.
 *
 * Lost is the work since the gang's newest checkpoint, or since its start when it has written none: GPUs times seconds. A
 * checkpoint from before the start is the run's own beginning and saves none of its work.
 */

import type { JobId } from "../values/ids.ts";

export interface Preempted {
  /** The job that gets the GPUs; the job itself when it was stopped to resume with more of them. */
  readonly forJob: JobId;
  readonly reason: string;
  /** When the job received the order. */
  readonly atMs: number;
  /** It had to give up only a part, and asked for this number of GPUs at once. */
  readonly keptGpus?: number;
  /** The checkpoint from which it resumes, once it has stopped. */
  readonly checkpoint?: SavedWork;
  readonly lostGpuSeconds?: number;
}

interface SavedWork {
  readonly path: string;
  readonly atMs: number;
}

export interface StoppedRun {
  readonly gpus: number;
  /** Absent when the run never started. */
  readonly startedAtMs?: number;
  readonly endedAtMs: number;
  /** The job's newest checkpoint. */
  readonly checkpoint?: SavedWork;
}

export function lostGpuSeconds({ gpus, startedAtMs, endedAtMs, checkpoint }: StoppedRun): number {
  if (startedAtMs === undefined) return 0;
  const savedUpToMs = Math.max(startedAtMs, checkpoint?.atMs ?? 0);
  return (gpus * Math.max(0, endedAtMs - savedUpToMs)) / 1_000;
}

/** `preempted for infer-3 after 3 min, checkpoint step-120, 42 GPU-seconds lost`. */
export function preemptedText(
  { forJob, keptGpus, checkpoint, lostGpuSeconds: lost }: Preempted,
  run: { readonly jobId: string; readonly ranMs: number },
): string {
  const parts = [
    forJob === run.jobId
      ? `stopped to grow after ${spanText(run.ranMs)}`
      : `preempted for ${forJob} after ${spanText(run.ranMs)}`,
    ...(keptGpus === undefined ? [] : [`goes on with ${keptGpus} GPUs`]),
  ];
  if (lost === undefined) return parts.join(", ");
  const name = checkpoint?.path.split("/").at(-1);
  parts.push(name === undefined ? "no checkpoint" : `checkpoint ${name}`);
  parts.push(`${Math.round(lost)} GPU-seconds lost`);
  return parts.join(", ");
}

/** `40 s`, `3 min`, `5.2 h`. */
function spanText(lengthMs: number): string {
  const seconds = Math.max(0, Math.round(lengthMs / 1_000));
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6_000) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3_600).toFixed(1)} h`;
}
