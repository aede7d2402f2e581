/** @file Jobs that have ended, from the console's history database: those of months ago, too. */

import { userName } from "../../access/own-identity.ts";
import { jobFits } from "../../client/job-filter.ts";
import { stateOf } from "../../client/listed-job.ts";
import { endedJobs } from "../../console/history/usage.ts";
import { openHistory, type JobRecord } from "../../console/history/database.ts";
import { jobId } from "../../domain/values/ids.ts";
import { parseDuration } from "../../domain/values/dimensions.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { historyFileIn } from "../../workers/state.ts";
import type { CommandContext } from "../command/command-context.ts";
import type { ConnectionOptionValues } from "../command/connection-options.ts";
import { jobFilterOf, type JobFilterValues } from "../command/job-filter-options.ts";
import { fleetNamed } from "../command/fleet-name.ts";
import { csvText } from "../terminal/csv-text.ts";
import { durationText, timeText } from "../terminal/duration.ts";
import { widthOf } from "../terminal/io.ts";
import { notedTable, wholeNames, type NotedRow } from "../terminal/table.ts";

export interface EndedValues extends ConnectionOptionValues, JobFilterValues {
  readonly since?: string;
  readonly history?: string;
  readonly limit: number;
  readonly columns?: readonly string[];
  readonly sort?: string;
  readonly wide?: boolean;
  readonly watch?: boolean;
  readonly all?: boolean;
  readonly output?: string;
  readonly json?: boolean;
}

export async function printEnded(context: CommandContext, values: EndedValues): Promise<void> {
  const { io } = context;
  const fits = filterOf(values, io.nowMs());
  const since = parseDuration(values.since ?? DEFAULT_SINCE);
  if (since.kind === "refused")
    throw new OrbweaverError("BAD_INPUT", `--since ${values.since ?? ""}: ${since.message}`);
  const file = values.history ?? historyFileIn(io.env, fleetNamed(values, io.env));
  const database = await openHistory(file, { isNew: false });
  try {
    const all = endedJobs(database, io.nowMs() - since.value);
    const found = all.filter(fits);
    const jobs = found.slice(0, values.limit);
    if (values.json === true) context.printJson({ file, jobs });
    else if (values.output === "name") for (const { job } of jobs) context.print(job);
    else if (values.output === "csv") context.print(csvText([NAMES, ...jobs.map(plainRow)]));
    else if (jobs.length === 0) context.print("no jobs");
    else {
      const columns = wholeNames(COLUMNS, ["JOB"], io.stdout.isTTY === true);
      context.print(notedTable(columns, jobs.map(row), widthOf(io.stdout)));
    }
    if (found.length > jobs.length)
      context.say(
        `${jobs.length} of ${found.length} jobs are listed, those that ended last. --limit ${found.length} lists all.`,
      );
  } finally {
    database.close();
  }
}

const DEFAULT_SINCE = "1d";

function filterOf(values: EndedValues, nowMs: number): (job: JobRecord) => boolean {
  const { label, cluster, gpuType, columns, sort, wide, watch, all } = values;
  const unknown = { label, cluster, "gpu-type": gpuType, columns, sort, wide, watch, all };
  const [flag] = Object.entries(unknown).find(([, value]) => value !== undefined) ?? [];
  if (flag !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `--ended does not go with --${flag}: the history database does not have it. Leave one of them out.`,
    );
  const { isMine, ...filter } = jobFilterOf(values, nowMs);
  const user = isMine === true ? userName() : filter.user;
  const isFit = jobFits({ ...filter, ...(user !== undefined && { user }) });
  const { tenant, class: jobClass, submittedBeforeMs, submittedAfterMs } = filter;
  return (job) =>
    isFit({
      ...{ jobId: jobId(job.job), name: job.name, user: job.user, clusters: [], hosts: [] },
      state: stateOf(STATUS[job.outcome] ?? job.outcome, undefined),
      submittedAtMs: job.submittedMs,
    }) &&
    (tenant === undefined || job.tenant === tenant) &&
    (jobClass === undefined || job.class === jobClass) &&
    job.submittedMs <= (submittedBeforeMs ?? Infinity) &&
    job.submittedMs >= (submittedAfterMs ?? 0);
}

/** As Temporal names the ends of workflows. */
const STATUS: Readonly<Record<string, string>> = {
  completed: "COMPLETED",
  failed: "FAILED",
  cancelled: "CANCELLED",
  terminated: "TERMINATED",
  "timed out": "TIMED_OUT",
};

const COLUMNS = [
  { title: "JOB", least: 12 },
  { title: "ENDED (UTC)" },
  { title: "TENANT", least: 8 },
  { title: "CLASS" },
  { title: "GPUS", isRight: true },
  { title: "AFTER" },
  { title: "OUTCOME" },
];

/** `2026-11-29 23:31`. */
const minuteText = (atMs: number): string => timeText(atMs).slice(0, "2026-11-29 23:31".length);

/** Why a job ended so may be a sentence: it stands under the row. */
const row = (job: JobRecord): NotedRow => ({
  cells: [
    ...[job.job, minuteText(job.endedMs), job.tenant, job.class, String(job.gpus)],
    ...[durationText(job.endedMs - job.submittedMs), job.outcome],
  ],
  note: job.why,
});

const NAMES: readonly (keyof JobRecord)[] = [
  ...(["job", "run", "name", "tenant", "class", "user", "gpus", "tasks"] as const),
  ...(["submittedMs", "endedMs", "outcome", "why"] as const),
];

const plainRow = (job: JobRecord): readonly string[] => NAMES.map((name) => String(job[name]));
