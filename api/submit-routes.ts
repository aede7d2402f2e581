/** @file The routes that submit jobs, in the caller's name and within its rights, and what every submission asks first. */

import { z } from "zod";
import { fleetsRefusal, submitRefusal } from "../access/principal.ts";
import { MOST_CHECKED } from "../client/service-client.ts";
import { readJob, type JobFile, type Submitted, type SubmitOptions } from "../client/index.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { mayDo } from "./job-facts.ts";
import { insist, route, type Call, type Route } from "./route.ts";

const jobFile = z
  .union([z.string(), z.looseObject({})])
  .meta({ description: "The job file: as YAML text, or as an object." });
export const queuedAnyway = z
  .boolean()
  .exactOptional()
  .meta({ description: "Also where the fleet would never start it as it is." });
const submitBody = z.strictObject({
  job: jobFile,
  isQueuedAnyway: queuedAnyway,
  idempotencyKey: z.string().exactOptional().meta({ description: "The job's id." }),
  file: z.string().max(4_096).exactOptional().meta({ description: "The text's name in problems." }),
});

export const SUBMIT_ROUTES: readonly Route[] = [
  route({
    method: "POST",
    path: "/v1/jobs",
    id: "submit",
    summary: "Submits a job in the caller's name; the same id and job twice start one job.",
    body: submitBody,
    note: ({ idempotencyKey: about }) => (about === undefined ? {} : { about }),
    answer: submit,
  }),
  route({
    method: "POST",
    path: "/v1/jobs/check",
    id: "check",
    summary: "Refuses jobs that the fleet would never start, of which it is asked; queues nothing.",
    body: z.strictObject({ jobs: z.array(jobFile).max(MOST_CHECKED) }),
    answer: async ({ caller: { principal, rights }, served, body }) => {
      // The library reads each as a job file, and refuses what is none.
      const jobs = body.jobs as (JobFile | string)[];
      for (const job of jobs) insist(submitRefusal(principal, rights, readJob(job).spec));
      await served.client.checkStarts(jobs);
      return {};
    },
  }),
];

/** In the caller's name, and only what it may ask for. */
export function submission({
  caller,
  served,
  accept,
}: Call): Pick<SubmitOptions, "signer" | "admit" | "maySee"> {
  const { principal, rights } = caller;
  return {
    signer: () => served.signerOf(principal),
    maySee: (jobId) => mayDo(served, caller, { act: "see", jobId }),
    admit: ({ jobId, spec, fleet }) => {
      insist(submitRefusal(principal, rights, spec));
      const fleets = [fleet, ...(spec.cells?.fleets ?? [])];
      insist(fleetsRefusal(principal, rights, { home: served.fleet, fleets }));
      accept(jobId);
    },
  };
}

async function submit(call: Call<unknown, z.output<typeof submitBody>>): Promise<Submitted> {
  const { job, ...how } = call.body;
  return await started(call, () =>
    // The library reads it as a job file, and refuses what is none.
    call.served.client.submit(job as JobFile | string, { ...how, ...submission(call) }),
  );
}

/** What is said of a former job with this id is said to those alone who may read it. */
export async function started<Answer extends Submitted>(
  { caller, served }: Call,
  start: () => Promise<Answer>,
): Promise<Answer> {
  const taken = (jobId: string): OrbweaverError =>
    new OrbweaverError(
      "IDEMPOTENCY_CONFLICT",
      `the key ${jobId} belongs to a job that you may not read. Use another key.`,
    );
  try {
    const answer = await start();
    if (answer.isNew || (await mayDo(served, caller, { act: "read", jobId: answer.jobId })))
      return answer;
    throw taken(answer.jobId);
  } catch (error) {
    if (!(error instanceof OrbweaverError) || error.code !== "IDEMPOTENCY_CONFLICT") throw error;
    const { details } = error;
    const isNamed = typeof details === "object" && details !== null && "jobId" in details;
    const jobId = isNamed ? String(details.jobId) : "";
    throw (await mayDo(served, caller, { act: "read", jobId })) ? error : taken(jobId);
  }
}
