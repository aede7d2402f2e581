/**
 * @file Dependencies on jobs that the server has forgotten, settled at submission from the history database of this machine: these have ended, so what is waited for has
 * come, or never will.
 */

import { existsSync } from "node:fs";
import { readJob, type JobFile } from "../../client/index.ts";
import { openHistory, type JobRecord } from "../../console/history/database.ts";
import type { DependencyEvent } from "../../domain/job/dependency.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { historyFileIn } from "../../workers/state.ts";
import type { CommandContext } from "./command-context.ts";

/** Whether the end of a job has met, or can no longer meet, what another waits for. */
export const isMetBy = (on: DependencyEvent, { outcome }: Pick<JobRecord, "outcome">): boolean =>
  on === "end" || on === "start" || (on === "success") === (outcome === "completed");

/**
 * The job without those of the missing predecessors that the history knows; undefined where it does not know all of them. Throws NOT_ALLOWED for one that can never be met,
 * unless the job is released then.
 */
export async function withoutRemembered(
  { io, say }: Pick<CommandContext, "io" | "say">,
  job: JobFile | string,
  { missing, fleet }: { readonly missing: readonly string[]; readonly fleet: string },
): Promise<JobFile | undefined> {
  const path = historyFileIn(io.env, fleet);
  if (!existsSync(path)) return undefined;
  const ended = await endsOf(path, missing);
  if (ended.size < missing.length) return undefined;
  const { file } = readJob(job);
  const { after = [], onFailedDependency, ...rest } = file;
  const open = after.filter((dependency) => {
    const { job: id, on = "success" } = dependency;
    const end = ended.get(id);
    if (end === undefined) return true;
    if (!isMetBy(on, end) && onFailedDependency !== "release")
      throw new OrbweaverError(
        "NOT_ALLOWED",
        `after: ${id} is ${end.outcome}, so ${file.name} would never start. Leave it out of after, or write onFailedDependency: release.`,
      );
    say(`${id} is ${end.outcome}, as the history database remembers; it is not waited for`);
    return false;
  });
  if (open.length === 0) return rest;
  return { ...rest, after: open, ...(onFailedDependency !== undefined && { onFailedDependency }) };
}

async function endsOf(
  path: string,
  jobs: readonly string[],
): Promise<ReadonlyMap<string, JobRecord>> {
  const database = await openHistory(path, { isNew: false });
  try {
    const rows = jobs.flatMap((job) =>
      // Of several runs under one id the last one counts.
      database.all<JobRecord>("SELECT * FROM jobs WHERE job = :job ORDER BY endedMs DESC LIMIT 1", {
        job,
      }),
    );
    return new Map(rows.map((row) => [row.job, row]));
  } finally {
    database.close();
  }
}
