/** @file The failures that end a job's workflow, and the id under which it may run. */

import { ApplicationFailure } from "@temporalio/workflow";
import type { FailureCode } from "../../domain/values/codes.ts";
import { jobId, type JobId } from "../../domain/values/ids.ts";
import type { JobFailureDetails } from "../../protocol/job.ts";

export function failure(
  code: FailureCode,
  message: string,
  details: Omit<JobFailureDetails, "code">,
): ApplicationFailure {
  return ApplicationFailure.create({
    type: code,
    message,
    nonRetryable: true,
    details: [{ code, ...details }],
  });
}

/** A job's id is the workflow's; one that could never be written on a command line is refused. */
export function readId(workflowId: string): JobId {
  try {
    return jobId(workflowId);
  } catch {
    throw failure(
      "MISCONFIGURED",
      `the workflow id ${JSON.stringify(workflowId)} has white space; a job's id may not. Start it under another.`,
      { attempts: 0 },
    );
  }
}
