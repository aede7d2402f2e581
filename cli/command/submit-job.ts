/** @file Submits one job for a verb, and says what its user should know of that. */

import type { FleetClient, JobFile, Submitted } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { CommandContext } from "./command-context.ts";

export interface JobToSubmit {
  readonly job: JobFile | string;
  readonly key: string | undefined;
  readonly file?: string | undefined;
  /** Although the fleet would never start it as it is. */
  readonly isAnyway?: boolean | undefined;
}

/** A job that is to wait for one that the server has forgotten waits for it no more, where the history of this machine knows its end. */
export async function submitJob(
  context: CommandContext,
  client: FleetClient,
  wanted: JobToSubmit,
): Promise<Submitted> {
  try {
    return await submitOnce(context, client, wanted);
  } catch (error) {
    const missing = missingIn(error);
    if (missing.length === 0) throw error;
    const fleet = client.fleetName;
    const { withoutRemembered } = await import("./remembered-jobs.ts");
    const job = await withoutRemembered(context, wanted.job, { missing, fleet });
    if (job === undefined) throw error;
    const { key, isAnyway } = wanted;
    return await submitOnce(context, client, { job, key, isAnyway });
  }
}

/** Those that the refusal of a job says the server does not know; none for another error. */
function missingIn(error: unknown): readonly string[] {
  if (!(error instanceof OrbweaverError) || error.code !== "NOT_FOUND") return [];
  const { details } = error;
  const named =
    typeof details === "object" && details !== null && "missing" in details ? details.missing : [];
  return Array.isArray(named) ? named.map(String) : [];
}

async function submitOnce(
  { say }: CommandContext,
  client: FleetClient,
  { job, key, file, isAnyway }: JobToSubmit,
): Promise<Submitted> {
  const answer = await client.submit(job, {
    onUnsigned: (why) =>
      say(`the job is not signed, so only hosts that trust the namespace run it: ${why}`),
    onUnchecked: say,
    ...(isAnyway === true && { isQueuedAnyway: true }),
    ...(key !== undefined && { idempotencyKey: key }),
    ...(file !== undefined && { file }),
  });
  if (!answer.isNew) say(`${answer.jobId} had been submitted before; nothing was started`);
  return answer;
}
