/** @file A job from flags and a command line alone, as `submit` and `run` take it. */

import { readJob, type JobFile } from "../../client/index.ts";
import type { CommandContext } from "./command-context.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";
import { jobFileWith, type JobFlags } from "./job-flags.ts";
import { placeFlags, sharingOf } from "./working-folder.ts";

/** Throws BAD_INPUT. */
export async function typedJob(
  context: CommandContext,
  values: JobFlags & ConnectionOptionValues,
  command: readonly string[],
): Promise<JobFile> {
  const { workdir: _named, ...others } = values;
  // Before a folder is sent: what is wrong with the job is said first.
  readJob(jobFileWith(undefined, others, command));
  const place = await placeFlags(context, values, {
    commandLine: command,
    sharing: () => sharingOf(values, context.io),
  });
  const job = jobFileWith(undefined, { ...others, ...place }, command);
  readJob(job);
  return job;
}
