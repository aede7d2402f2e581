/** @file The columns in which jobs can be listed: their cells for people, and their values for sorting and for CSV. */

import type { ListedJob } from "../../client/index.ts";
import { labelTexts } from "../../domain/job/job-labels.ts";
import { byCodeUnit } from "../../domain/values/ids.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { nearestName } from "../../domain/values/nearest-name.ts";
import { stateColour, type Colours } from "../terminal/colour.ts";
import { durationText } from "../terminal/duration.ts";
import type { Column } from "../terminal/table.ts";
import { whereText } from "./place.ts";

export interface ListView {
  readonly fleet: string;
  readonly nowMs: number;
  readonly colours: Colours;
  /** Of the jobs that wait in the fleet's queue, where a column asks for it. */
  readonly places?: ReadonlyMap<string, number>;
}

export interface JobColumn extends Column {
  /** As `--columns` and `--sort` name it. */
  readonly name: string;
  /** In seconds where it is a length of time, in milliseconds since 1970 where it is a time; undefined when not known. */
  readonly value: (job: ListedJob, view: ListView) => string | number | undefined;
  /** The value as text where absent. */
  readonly cell?: (job: ListedJob, view: ListView) => string;
}

/** The column of a job's place in the queue, which the fleet has to be asked for. */
export const PLACE = "place";

const JOB_COLUMNS: readonly JobColumn[] = [
  { name: "job", title: "JOB", least: 16, value: ({ jobId }) => jobId },
  { name: "name", title: "NAME", least: 6, value: (job) => job.name },
  { name: "user", title: "USER", least: 4, value: (job) => job.user },
  { name: "class", title: "CLASS", value: (job) => job.class },
  { name: "tenant", title: "TENANT", least: 6, value: (job) => job.tenant },
  { name: "priority", title: "PRIORITY", isRight: true, value: (job) => job.priority },
  {
    name: "state",
    title: "STATE",
    value: ({ state }) => state,
    cell: (job, { colours }) => stateColour(colours, job.state) + progressText(job),
  },
  { name: "gpus", title: "GPUS", isRight: true, value: ({ gpus }) => gpus, cell: gpusText },
  { name: "type", title: "TYPE", least: 4, value: ({ gpuTypes }) => joined(gpuTypes) },
  {
    name: "where",
    title: "WHERE",
    least: 8,
    value: (job, { fleet }) => whereText(job, fleet),
  },
  { name: "cluster", title: "CLUSTER", least: 7, value: ({ clusters }) => joined(clusters) },
  { name: "host", title: "HOST", least: 6, value: ({ hosts }) => joined(hosts) },
  {
    name: PLACE,
    title: "PLACE",
    isRight: true,
    value: ({ jobId }, { places }) => places?.get(jobId),
  },
  { name: "reason", title: "REASON", least: 8, value: ({ pending }) => pending?.code },
  {
    name: "waited",
    title: "WAITED",
    isRight: true,
    value: waitedSeconds,
    cell: lengthOf(waitedSeconds),
  },
  { name: "age", title: "AGE", isRight: true, value: ageSeconds, cell: lengthOf(ageSeconds) },
  { name: "ran", title: "RAN", isRight: true, value: ranSeconds, cell: lengthOf(ranSeconds) },
  {
    name: "submitted",
    title: "SUBMITTED",
    value: (job) => job.submittedAtMs,
    cell: timeOf("submittedAtMs"),
  },
  { name: "ended", title: "ENDED", value: (job) => job.endedAtMs, cell: timeOf("endedAtMs") },
  {
    name: "labels",
    title: "LABELS",
    least: 6,
    value: ({ labels = {} }) => joined(labelTexts(labels)),
  },
];

export const JOB_COLUMN_NAMES: readonly string[] = JOB_COLUMNS.map(({ name }) => name);

export const USUAL_COLUMNS = [
  "job",
  "class",
  "tenant",
  "state",
  "gpus",
  "where",
  "waited",
] as const;

export const WIDE_COLUMNS = [
  ...["job", "name", "user", "class", "tenant", "priority", "state", "gpus", "type"],
  ...["where", "waited", "age", "labels"],
] as const;

/** Throws BAD_INPUT with the nearest name. */
export function jobColumn(name: string): JobColumn {
  const column = JOB_COLUMNS.find((each) => each.name === name.toLowerCase());
  if (column !== undefined) return column;
  const near = nearestName(name, JOB_COLUMN_NAMES);
  const hint = near === undefined ? `Use ${JOB_COLUMN_NAMES.join(", ")}` : `Did you mean ${near}`;
  throw new OrbweaverError(
    "BAD_INPUT",
    `${JSON.stringify(name)} is no column of jobs. ${hint}${near === undefined ? "." : "?"}`,
  );
}

export const cellOf = (column: JobColumn, job: ListedJob, view: ListView): string =>
  column.cell?.(job, view) ?? String(column.value(job, view) ?? "");

/** `-age` sorts downwards. Jobs without a value come last either way; ties keep their order. */
export function sortedJobs(
  jobs: readonly ListedJob[],
  sort: string,
  view: ListView,
): readonly ListedJob[] {
  const isDown = sort.startsWith("-");
  const { value } = jobColumn(isDown ? sort.slice(1) : sort);
  const keyed = jobs.map((job) => ({ job, key: value(job, view) }));
  const known = keyed.filter(({ key }) => key !== undefined && key !== "");
  const unknown = keyed.filter(({ key }) => key === undefined || key === "");
  known.sort((a, b) => (isDown ? -1 : 1) * compared(a.key, b.key));
  return [...known, ...unknown].map(({ job }) => job);
}

function compared(a: string | number | undefined, b: string | number | undefined): number {
  return typeof a === "number" && typeof b === "number" ? a - b : byCodeUnit(String(a), String(b));
}

/** Of an array: how many of its tasks have ended. */
function progressText({ tasks }: ListedJob): string {
  if (tasks === undefined) return "";
  const ended = tasks.completed + tasks.failed + tasks.cancelled;
  return ` ${String(ended)}/${String(tasks.count)}`;
}

/** `48/64` of a gang that is smaller than the job asked for. */
function gpusText({ gpus, gpusRequested }: ListedJob): string {
  const wanted = gpusRequested === undefined ? "" : `/${String(gpusRequested)}`;
  return gpus === undefined ? "" : `${String(gpus)}${wanted}`;
}

/** From the submission to the present lease, or to now; unknown for an ended job. */
function waitedSeconds(job: ListedJob, { nowMs }: ListView): number | undefined {
  if (job.endedAtMs !== undefined) return undefined;
  return seconds((job.grantedAtMs ?? nowMs) - job.submittedAtMs);
}

function ageSeconds({ submittedAtMs }: ListedJob, { nowMs }: ListView): number {
  return seconds(nowMs - submittedAtMs);
}

/** Of its present lease; what ended jobs ran is in `status`. */
function ranSeconds(
  { grantedAtMs, endedAtMs }: ListedJob,
  { nowMs }: ListView,
): number | undefined {
  return grantedAtMs === undefined || endedAtMs !== undefined
    ? undefined
    : seconds(nowMs - grantedAtMs);
}

const seconds = (lengthMs: number): number => Math.max(0, Math.floor(lengthMs / 1000));

function lengthOf(
  value: (job: ListedJob, view: ListView) => number | undefined,
): (job: ListedJob, view: ListView) => string {
  return (job, view) => {
    const length = value(job, view);
    return length === undefined ? "" : durationText(1000 * length);
  };
}

function timeOf(key: "submittedAtMs" | "endedAtMs"): (job: ListedJob) => string {
  return (job) => {
    const atMs = job[key];
    return atMs === undefined ? "" : `${new Date(atMs).toISOString().slice(0, 19)}Z`;
  };
}

const joined = (words: readonly string[] = []): string | undefined =>
  words.length === 0 ? undefined : words.join(",");
