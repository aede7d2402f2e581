/** @file Submits one job for a verb, and says what its user should know of that. */

import type { FleetClient, JobFile, Submitted } from "../../client/index.ts";
import type { CommandContext } from "./command-context.ts";

export async function submitJob(
  { say }: CommandContext,
  client: FleetClient,
  {
    job,
    key,
    file,
  }: {
    readonly job: JobFile | string;
    readonly key: string | undefined;
    readonly file?: string | undefined;
  },
): Promise<Submitted> {
  const answer = await client.submit(job, {
    onUnsigned: (why) =>
      say(`the job is not signed, so only hosts that trust the namespace run it: ${why}`),
    onUnchecked: (why) => say(`resources were not compared with the hosts: ${why}`),
    ...(key !== undefined && { idempotencyKey: key }),
    ...(file !== undefined && { file }),
  });
  if (!answer.isNew) say(`${answer.jobId} had been submitted before; nothing was started`);
  return answer;
}
