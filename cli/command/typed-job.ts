/** @file A job from flags and a command line alone, as `submit` and `run` take it. */

import { readJob, type JobFile } from "../../client/index.ts";
import type { CommandContext } from "./command-context.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";
import { jobFileWith, type JobFlags } from "./job-flags.ts";
import { namedFolder, sharingOf, workingFolder } from "./working-folder.ts";

/** Throws BAD_INPUT. */
export async function typedJob(
  { io }: CommandContext,
  values: JobFlags & ConnectionOptionValues,
  command: readonly string[],
): Promise<JobFile> {
  const workdir =
    namedFolder(values, io) ??
    workingFolder({ command, isTyped: true }, await sharingOf(values, io), io.cwd);
  const job = jobFileWith(
    undefined,
    { ...values, ...(workdir !== undefined && { workdir }) },
    command,
  );
  readJob(job);
  return job;
}
