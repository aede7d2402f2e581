/** @file What a job leaves when it ends: its result, or its failure with the earliest cause. */

import type { ApplicationFailure } from "@temporalio/workflow";
import type { JobId } from "../domain/ids.ts";
import type { GangEnd } from "./gang-end.ts";
import { attemptGpus } from "./job-summary.ts";
import { failure } from "./job-view.ts";
import type { AttemptView, JobResult } from "./messages.ts";

export function jobResult(
  end: GangEnd,
  job: {
    readonly jobId: JobId;
    readonly attempts: readonly AttemptView[];
    readonly last: AttemptView;
    readonly submittedAtMs: number;
  },
): JobResult {
  const { jobId, attempts, last, submittedAtMs } = job;
  return {
    jobId,
    attempts: attempts.length,
    gpus: attemptGpus(last),
    hosts: last.gpus.map((part) => part.host),
    queuedMs: last.grantedAtMs - submittedAtMs,
    ranMs: end.endedAtMs - (end.startedAtMs ?? last.grantedAtMs),
    ...(end.checkpoint !== undefined && { checkpoint: end.checkpoint.path }),
  };
}

export function jobFailure(
  end: GangEnd,
  job: {
    readonly jobId: JobId;
    readonly attempts: number;
    /** Set when the deadline is what ended it. */
    readonly missedDeadlineMs?: number;
  },
): ApplicationFailure {
  const { jobId, attempts, missedDeadlineMs } = job;
  if (missedDeadlineMs !== undefined) {
    return failure(
      "DEADLINE_EXCEEDED",
      `job ${jobId} did not end within ${missedDeadlineMs / 1000} s of its submission`,
      { attempts },
    );
  }
  const { cause } = end;
  const { code = "STOPPED", message = `job ${jobId} was stopped` } = cause ?? {};
  return failure(code, message, {
    attempts,
    ...(cause?.host !== undefined && { host: cause.host }),
    ...(cause?.rank !== undefined && { rank: cause.rank }),
    ...(cause?.exitCode !== undefined && { exitCode: cause.exitCode }),
    ...(cause?.signal !== undefined && { signal: cause.signal }),
    ...(cause?.lastLines !== undefined && { lastLines: cause.lastLines }),
  });
}
