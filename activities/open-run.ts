/**
 * @file The run in which a job is open now, and the question what that run holds and waits for.
 *
 * The question names the run that is asked, and goes to no other: a job that is reset later repeats the answer of that run
 * (`machines/job/run-asked.ts`). One that was reset meanwhile is asked under its next run.
 */

import { isGrpcServiceError, WorkflowNotFoundError, type Client } from "@temporalio/client";
import type { LeaseId } from "../domain/values/ids.ts";
import { assertSignal } from "../protocol/messages.ts";
import { JOB_TASK_QUEUE, JOB_WORKFLOW } from "../protocol/names.ts";
import { tellJob } from "./job-words.ts";

/**
 * The run in which a job is open now; undefined when it is closed or never was. What a stranger has begun under its id is no job: a workflow of another type, or on a queue that
 * no worker of ours serves, would never answer a question.
 */
export async function openRun(client: Client, workflowId: string): Promise<string | undefined> {
  try {
    const { status, runId, type, taskQueue } = await client.workflow
      .getHandle(workflowId)
      .describe();
    const isOpen = status.name === "RUNNING" || status.name === "PAUSED";
    return isOpen && type === JOB_WORKFLOW && taskQueue === JOB_TASK_QUEUE ? runId : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || isInvalidArgument(error)) return undefined;
    throw error;
  }
}

const INVALID_ARGUMENT = 3;

/** A workflow with an invalid id (junk in a request) counts as closed. */
export function isInvalidArgument(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return isGrpcServiceError(cause) && Number(cause.code) === INVALID_ARGUMENT;
}

/** Of a workflow that has ended, or never was. */
export const isGone = (error: unknown): boolean =>
  error instanceof WorkflowNotFoundError || isInvalidArgument(error);

export interface Question {
  /** The run in which the job was open a moment ago. */
  readonly runId: string;
  /** Those of its leases that are doubted. */
  readonly leases?: readonly LeaseId[];
}

/** Asks nobody where the job has ended. */
export async function askRun(
  client: Client,
  jobId: string,
  { runId, leases = [] }: Question,
): Promise<void> {
  try {
    const run = client.workflow.getHandle(jobId, runId);
    await tellJob({ client, run }, assertSignal, { leases, runId });
  } catch (error) {
    if (!isGone(error)) throw error;
    const open = await openRun(client, jobId);
    if (open !== undefined && open !== runId) await askRun(client, jobId, { runId: open, leases });
  }
}

/**
 * Whether a run of a job is over. The run that goes on for it after a reset has been asked then: its fleet forgets the one before, and nobody would ask it. Fails where
 * it could not be asked.
 */
export async function isOver(
  client: Client,
  { jobId, runId }: { readonly jobId: string; readonly runId: string },
): Promise<boolean> {
  const open = await openRun(client, jobId);
  if (open !== undefined && open !== runId) await askRun(client, jobId, { runId: open });
  return open !== runId;
}

/** The run of a job that goes on for one that is gone. */
export async function askOpenRun(client: Client, jobId: string): Promise<void> {
  const runId = await openRun(client, jobId);
  if (runId !== undefined) await askRun(client, jobId, { runId });
}
