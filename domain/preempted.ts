/**
 * @file A run that had to give up its GPUs: for whom and why, what of its work is saved and what is lost, and how people read that.
 *
 * Lost is what the gang did since its newest checkpoint, or since its start where it has written none: GPUs times seconds. A
 * checkpoint from before the start is what the run began with and saves nothing of it.
 */

import type { JobId } from "./ids.ts";

export interface Preempted {
  /** Who gets the GPUs; the job itself when it was stopped to go on with more of them. */
  readonly forJob: JobId;
  readonly reason: string;
  /** When the job heard of it. */
  readonly atMs: number;
  /** It had to give up a part only, and asked for so many GPUs at once. */
  readonly keptGpus?: number;
  /** Once it has stopped: what it goes on from. */
  readonly checkpoint?: SavedWork;
  readonly lostGpuSeconds?: number;
}

interface SavedWork {
  readonly path: string;
  readonly atMs: number;
}

export interface StoppedRun {
  readonly gpus: number;
  /** Absent when it never started. */
  readonly startedAtMs?: number;
  readonly endedAtMs: number;
  /** The newest that there is of the job. */
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
