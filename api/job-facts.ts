/**
 * @file Whose a job is: its submitter by the signature in the memo of its workflow, where this service or its owner has signed; its tenant by its search
 * attribute, which only the job's own worker changes after its start.
 */

import { WorkflowNotFoundError } from "@temporalio/client";
import { provenSigner } from "../access/job-proof.ts";
import { jobRefusal, submitRefusal, type JobAct, type JobOwnership } from "../access/principal.ts";
import { asked } from "../client/index.ts";
import { FLEET_KEY, HOME_KEY, TENANT_KEY } from "../client/search-keys.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { JOB_WORKFLOW } from "../protocol/messages.ts";
import { PROOF_MEMO } from "../protocol/signed-job.ts";
import { insist, type Caller, type ServedFleet } from "./route.ts";

export interface JobFacts extends JobOwnership {
  /** The key that signed it, of those that this service believes. */
  readonly signedBy: string | undefined;
  readonly submittedAtMs: number;
}

/** Throws NOT_FOUND for what is no job of this fleet. */
export async function jobFacts(
  { temporal, fleet, ownKeys }: ServedFleet,
  jobId: string,
): Promise<JobFacts> {
  const subject = `job ${jobId}`;
  const {
    type,
    memo,
    startTime,
    typedSearchAttributes: said,
  } = await asked(temporal, subject, () => temporal.workflow.getHandle(jobId).describe());
  const isHere = said.get(FLEET_KEY) === fleet || said.get(HOME_KEY) === fleet;
  if (type !== JOB_WORKFLOW || !isHere)
    throw new OrbweaverError("NOT_FOUND", `fleet ${fleet} has no job ${jobId}`);
  const signer = provenSigner(memo?.[PROOF_MEMO], { jobId, keys: ownKeys() });
  return {
    ...{ user: signer?.name, signedBy: signer?.publicKey, tenant: said.get(TENANT_KEY) },
    submittedAtMs: startTime.getTime(),
  };
}

/** Throws AccessRefusal where the caller may not, NOT_FOUND for what is no job of this fleet. */
export async function allowed(
  served: ServedFleet,
  { principal, rights }: Caller,
  { act, jobId }: { readonly act: JobAct; readonly jobId: string },
): Promise<JobFacts> {
  const job = await jobFacts(served, jobId);
  insist(jobRefusal(principal, rights, { act, job }));
  return job;
}

/** For an order after which processes of the job start: its own job, too, must be one that the caller may ask for today, as it is now. */
export async function allowedToRun(
  served: ServedFleet,
  caller: Caller,
  jobId: string,
): Promise<JobFacts> {
  const facts = await allowed(served, caller, { act: "change", jobId });
  const { principal, rights } = caller;
  if (rights.roles.includes("operator")) return facts;
  const { spec } = await served.client.job(jobId).view();
  if (spec === undefined)
    throw new OrbweaverError("NOT_ALLOWED", `${jobId} has not read its job file yet. Try again.`);
  insist(submitRefusal(principal, rights, spec));
  return facts;
}

/** Whether there is a job with this id with which the caller may do so. */
export async function mayDo(
  served: ServedFleet,
  caller: Caller,
  to: { readonly act: JobAct; readonly jobId: string },
): Promise<boolean> {
  try {
    await allowed(served, caller, to);
    return true;
  } catch (error) {
    if (error instanceof OrbweaverError || error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
