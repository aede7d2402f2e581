/**
 * @file Checks, before a job is submitted, that there are the jobs that it is to wait for, and that its submitter may see them.
 *
 * They must have been submitted before, so no jobs wait for each other in a circle.
 */

import type { Client } from "@temporalio/client";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { JobId } from "../domain/values/ids.ts";
import type { JobSpec } from "../domain/job/job.ts";
import { JOB_WORKFLOW } from "../protocol/messages.ts";
import { asked } from "./server-error.ts";

/** Throws NOT_FOUND with all that are missing. `maySee`: those who ask a submit service see some jobs alone. */
export async function checkPredecessors(
  client: Client,
  { after = [] }: JobSpec,
  maySee: (job: JobId) => Promise<boolean> = () => Promise.resolve(true),
): Promise<void> {
  const jobs = [...new Set(after.map(({ job }) => job))];
  const known = await Promise.all(
    jobs.map(async (job) => (await isJob(client, job)) && (await maySee(job))),
  );
  const missing = jobs.filter((_, at) => known[at] !== true);
  if (missing.length === 0) return;
  const these = missing.join(", ");
  throw new OrbweaverError(
    "NOT_FOUND",
    `after: there is no job ${these}, or it ended so long ago that it was deleted. Name jobs by the ids that \`submit\` printed (\`orbweaver list --all\` shows them), or leave ${missing.length === 1 ? "it" : "them"} out.`,
    { details: { missing } },
  );
}

async function isJob(client: Client, job: JobId): Promise<boolean> {
  try {
    const found = client.workflow.getHandle(job);
    const { type } = await asked(client, `job ${job}`, () => found.describe());
    return type === JOB_WORKFLOW;
  } catch (error) {
    if (error instanceof OrbweaverError && error.code === "NOT_FOUND") return false;
    throw error;
  }
}
