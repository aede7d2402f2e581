/** @file What the history database keeps of a job, from the job's page. */

import type { AttemptRow, JobPage } from "../../page/job-wire.ts";
import type { JobRecord, ReadJob, RunRecord } from "./database.ts";

export function jobRecords(page: JobPage): Pick<ReadJob, "record" | "runs"> {
  const { job, run = "", about, ended, user = "", moments } = page;
  const runs = page.attempts
    .filter(({ end, isUnreported }) => end !== undefined || (ended !== undefined && !isUnreported))
    .map((attempt) => runRecord(job, attempt));
  if (ended === undefined) return { runs };
  const record: JobRecord = {
    ...{ job, run, user },
    name: about?.name ?? "",
    tenant: about?.tenant ?? "",
    class: about?.class ?? "",
    gpus: about?.gpus ?? 0,
    tasks: about?.tasks ?? 0,
    submittedMs: moments[0]?.atMs ?? ended.atMs,
    endedMs: ended.atMs,
    outcome: ended.how,
    why: ended.why,
  };
  return { record, runs };
}

/** A run that never started ended, too: all that it held was idle. Of one that nobody reported nothing is known, so it has no record. */
const runRecord = (job: string, attempt: AttemptRow): RunRecord => {
  const { lease, startedAtMs, endedAtMs, lostGpuSeconds, end, predictedGbs, measuredGbs } = attempt;
  return {
    ...{ job, lease },
    startedMs: startedAtMs ?? null,
    endedMs: endedAtMs ?? null,
    // Also in the place of what the fleet estimated for an eviction that the run outran.
    lostGpuSeconds: lostGpuSeconds ?? (end === undefined ? null : 0),
    bandwidthError:
      predictedGbs === undefined || measuredGbs === undefined || !(predictedGbs > 0)
        ? null
        : Math.abs(measuredGbs / predictedGbs - 1),
    outcome: end ?? "ended",
  };
};
