/** @file How a job ends: its result, its cancellation, or its failure with the earliest cause. */

import type { Step } from "../machine.ts";
import type { GangEnd } from "../gang/gang-end.ts";
import type { AttemptView, JobResult } from "../../protocol/job.ts";
import { attemptGpus } from "./job-summary.ts";
import type { Job, JobCommand, JobOutcome } from "./job-state.ts";
import { mark } from "./marks.ts";

/** Ends the job with the end of its last run. */
export function finish(job: Job, end: GangEnd): Step<Job, JobCommand> {
  const outcome = outcomeOf(job, end);
  const { state, commands } = mark({ ...job, shown: outcome.kind }, outcome.kind);
  return { state: { ...state, stage: { kind: "over", outcome } }, commands };
}

function outcomeOf(job: Job, end: GangEnd): JobOutcome {
  const last = job.attempts.at(-1);
  if (end.end === "completed" && last !== undefined)
    return { kind: "completed", result: jobResult(job, last, end) };
  return job.reason === "cancelled" ? { kind: "cancelled" } : jobFailure(job, end);
}

const jobResult = (
  { jobId, attempts, submittedAtMs }: Job,
  last: AttemptView,
  { startedAtMs = last.grantedAtMs, endedAtMs, checkpoint }: GangEnd,
): JobResult => ({
  jobId,
  attempts: attempts.length,
  gpus: attemptGpus(last),
  hosts: last.gpus.map((part) => part.host),
  queuedMs: last.grantedAtMs - submittedAtMs,
  ranMs: endedAtMs - startedAtMs,
  ...(checkpoint !== undefined && { checkpoint: checkpoint.path }),
});

function jobFailure({ jobId, attempts, reason, spec }: Job, { cause }: GangEnd): JobOutcome {
  if (reason === "deadline") {
    const message = `job ${jobId} did not end within ${(spec?.deadlineMs ?? 0) / 1000} s of its submission`;
    const details = { attempts: attempts.length };
    return { kind: "failed", code: "DEADLINE_EXCEEDED", message, details };
  }
  const { code = "STOPPED", message = `job ${jobId} was stopped` } = cause ?? {};
  return {
    kind: "failed",
    code,
    message,
    details: {
      attempts: attempts.length,
      ...(cause?.host !== undefined && { host: cause.host }),
      ...(cause?.rank !== undefined && { rank: cause.rank }),
      ...(cause?.exitCode !== undefined && { exitCode: cause.exitCode }),
      ...(cause?.signal !== undefined && { signal: cause.signal }),
      ...(cause?.lastLines !== undefined && { lastLines: cause.lastLines }),
    },
  };
}
