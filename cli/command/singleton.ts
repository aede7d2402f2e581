/** @file `submit --singleton`: one job of a name and user at a time. The job waits for the end of those that are there when it is submitted. */

import { readJob, type FleetClient, type JobFile } from "../../client/index.ts";
import { MAX_DEPENDENCIES, type Dependency } from "../../domain/job/dependency.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";

const OPEN = ["pending", "held", "running"] as const;

/** The job with `after` its user's open jobs of its name. Throws NOT_ALLOWED where these are too many. */
export async function afterItsNamesakes(
  client: FleetClient,
  job: JobFile | string,
): Promise<JobFile> {
  const { file } = readJob(job);
  const former = new Set<string>();
  // A pattern may fit more than the very name.
  for await (const each of client.list({ state: OPEN, isMine: true, name: file.name }))
    if (each.name === file.name) former.add(each.jobId);
  const written = file.after ?? [];
  const more = [...former]
    .filter((id) => !written.some(({ job: named, on }) => named === id && on === "end"))
    .sort()
    .map((id) => ({ job: id, on: "end" }) satisfies Omit<Dependency, "job"> & { job: string });
  const after = [...written, ...more];
  if (after.length === 0) return file;
  if (after.length > MAX_DEPENDENCIES)
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `--singleton: ${String(former.size)} jobs named ${file.name} are waiting or running, and a job waits for ${String(MAX_DEPENDENCIES)} at most. Cancel some: orbweaver cancel --me --name ${file.name}`,
    );
  return { ...file, after };
}
