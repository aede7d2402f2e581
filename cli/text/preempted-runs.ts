/** @file Preempted runs of a job, and gangs smaller than requested, as text. */

import { preemptedText, type Preempted } from "../../domain/lease/preempted.ts";
import type { AttemptView, JobView } from "../../client/index.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";

/**
 * `run 1: preempted for infer-3 after 3 min, checkpoint step-120, 42 GPU-seconds lost`, one a line; undefined when there was
 * none.
 */
export function preemptionsText({ jobId, attempts }: JobView): string | undefined {
  const lines = attempts.flatMap((attempt) => {
    const text = preemptionText(jobId, attempt);
    return text === undefined ? [] : [`run ${String(attempt.attempt)}: ${text}`];
  });
  return lines.length === 0 ? undefined : lines.join("\n");
}

export function preemptionText(jobId: string, attempt: AttemptView): string | undefined {
  const { preempted, startedAtMs, grantedAtMs, endedAtMs } = attempt;
  if (preempted === undefined) return undefined;
  const ranMs = (endedAtMs ?? preempted.atMs) - (startedAtMs ?? grantedAtMs);
  return preemptedText(preempted, { jobId, ranMs });
}

/** `for infer-3: its GPUs are due to …`, `to grow: …`. */
export const wantedText = (jobId: string, { forJob, reason }: Preempted): string =>
  `${forJob === jobId ? "to grow" : `for ${forJob}`}: ${reason}`;

/** `48 of 64 GPUs (degraded)`; undefined for a gang of the full size. */
export function degradedText({ spec, array }: JobView, attempt: AttemptView): string | undefined {
  if (spec === undefined || array !== undefined) return undefined;
  const granted = gpuCountOf(attempt.gpus);
  const wanted = spec.gang.gpus;
  return granted < wanted ? `${String(granted)} of ${String(wanted)} GPUs (degraded)` : undefined;
}
