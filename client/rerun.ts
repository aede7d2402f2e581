/**
 * @file Runs an ended job again: the same file as a new job, under the name of who asks; of an array, the tasks that did not end well.
 *
 * It waits for no other jobs and is not held: who asks for it wants it now. The new job's id is the former one's with `-r1`, and `-r2` for the job that follows it, so a second request for the same rerun finds the first.
 */

import type { Client } from "@temporalio/client";
import { parseJobFile, type JobFile } from "../domain/job/job-file.ts";
import { formatTaskRanges, selectedTasks } from "../domain/job/task-ranges.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { JobId } from "../domain/values/ids.ts";
import {
  DEFAULT_FLEET,
  MAX_TASK_PAGE,
  type JobView,
  type TaskPage,
  type TaskQuery,
  type TaskState,
} from "../protocol/messages.ts";
import type { AttemptView } from "../protocol/job.ts";
import { fileAsAmended } from "./amendment.ts";
import { firstInput } from "./first-input.ts";
import { submitJob, type Submitted, type SubmitOptions } from "./submission.ts";

export interface RerunOptions extends Pick<SubmitOptions, "onUnsigned" | "signer" | "admit"> {
  /** The id of the new job. */
  readonly idempotencyKey?: string;
  /** Of an array, as in `3,7-9`; absent: those that failed, and of a cancelled array all that did not complete. */
  readonly tasks?: string;
  /** The new job goes on from the newest checkpoint of the former one. Throws NOT_ALLOWED where it would not find any. */
  readonly fromCheckpoint?: true;
}

export interface Rerun extends Submitted {
  /** The tasks that run again; absent where it is no array. */
  readonly tasks?: string;
}

export interface EndedJob {
  readonly client: Client;
  readonly jobId: JobId;
  readonly view: () => Promise<JobView>;
  /** How it ended; undefined while it has not. */
  readonly end: () => Promise<string | undefined>;
  readonly tasksOf: (query: TaskQuery) => Promise<TaskPage>;
}

export async function rerunJob(job: EndedJob, options: RerunOptions): Promise<Rerun> {
  const { client, jobId } = job;
  const end = await job.end();
  if (end === undefined)
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `job ${jobId} has not ended. Cancel it first, or of an array run single tasks again (--task).`,
    );
  const former = await formerJob(job);
  const { spec, amended, attempts } = await job.view();
  const { fleet } = former;
  const isAmended = amended !== undefined && spec !== undefined;
  const same = isAmended ? fileAsAmended(former.file, spec) : former.file;
  const file = options.fromCheckpoint === true ? goingOn(jobId, same, attempts) : same;
  const { array } = file;
  if (array === undefined && options.tasks !== undefined)
    throw new OrbweaverError("NOT_ALLOWED", `job ${jobId} is not a job array, so it has no tasks`);
  const tasks =
    array === undefined ? undefined : (options.tasks ?? (await unfinishedTasks(job, end)));
  const { idempotencyKey: _former, after: _met, onFailedDependency: _rule, ...started } = file;
  const { hold: _hold, ...again } = started;
  const {
    idempotencyKey = followingId(jobId),
    tasks: _tasks,
    fromCheckpoint: _insisted,
    ...how
  } = options;
  const submitted = await submitJob(
    client,
    { ...again, ...(array !== undefined && tasks !== undefined && { array: { ...array, tasks } }) },
    // This fleet has taken it once.
    { ...how, fleet, idempotencyKey, isQueuedAnyway: true },
  );
  return { ...submitted, ...(tasks !== undefined && { tasks }) };
}

/**
 * The file of a job that goes on where this one has stopped. In a `run.checkpoint.dir` each run finds the newest checkpoint, whichever job wrote it.
 * Checkpoints in the agents' own folders are handed on by `run.checkpoint.from`, on the hosts of the last run that left one.
 */
export function goingOn(
  jobId: JobId,
  file: JobFile,
  attempts: readonly Pick<AttemptView, "checkpoint" | "gpus">[],
): JobFile {
  const { run, array, constraints } = file;
  const rule = run?.checkpoint;
  if (run === undefined || rule === undefined)
    throw noCheckpoint(
      jobId,
      "makes no checkpoints (run.checkpoint)",
      "name run.checkpoint for the next time",
    );
  if (rule.dir !== undefined) return file;
  if (array !== undefined || run.container !== undefined)
    throw noCheckpoint(
      jobId,
      `is ${array === undefined ? "a job in an image" : "an array"}, whose checkpoints in folders of its hosts no other job gets`,
      "name a shared folder in run.checkpoint.dir for the next time",
    );
  const left = attempts.filter(({ checkpoint }) => checkpoint !== undefined).at(-1);
  // Its file has the hosts.
  if (left === undefined && rule.from !== undefined) return file;
  if (left === undefined)
    throw noCheckpoint(jobId, "has written no checkpoint", "`orbweaver status` shows its runs");
  const asked = constraints?.hosts ?? [];
  const hosts = left.gpus
    .map(({ host }) => host)
    .filter((host) => asked.length === 0 || asked.some((one) => one === host));
  return {
    ...file,
    constraints: { ...constraints, hosts },
    run: { ...run, checkpoint: { ...rule, from: jobId } },
  };
}

const noCheckpoint = (jobId: JobId, why: string, remedy: string): OrbweaverError =>
  new OrbweaverError(
    "NOT_ALLOWED",
    `job ${jobId} ${why}. Retry it without --from-checkpoint to start anew; ${remedy}.`,
  );

/** `train-7` → `train-7-r1` → `train-7-r2`. */
function followingId(jobId: JobId): string {
  const [, stem = jobId, count = "0"] = /^(.*)-r([1-9]\d{0,5})$/.exec(jobId) ?? [];
  return `${stem}-r${String(Number(count) + 1)}`;
}

async function formerJob({
  client,
  jobId,
}: EndedJob): Promise<{ readonly file: JobFile; readonly fleet: string }> {
  const [file, options] = (await firstInput(client, jobId)) ?? [];
  if (parseJobFile(file).kind === "refused")
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `the file of job ${jobId} cannot be read by this release. Submit it again, mended.`,
    );
  const isNamed = typeof options === "object" && options !== null && "fleet" in options;
  const fleet = isNamed && typeof options.fleet === "string" ? options.fleet : DEFAULT_FLEET;
  // Just parsed.
  return { file: file as JobFile, fleet };
}

/** Those that run again unless others are named. Throws NOT_ALLOWED where there are none. */
export async function unfinishedTasks(
  { jobId, view, tasksOf }: Pick<EndedJob, "jobId" | "view" | "tasksOf">,
  end: string,
): Promise<string> {
  const { spec, array } = await view();
  const rule = spec?.array ?? { count: 0 };
  // It ended before its tasks began, so it knows none to be asked for.
  if (array === undefined && rule.count > 0) return formatTaskRanges(selectedTasks(rule));
  const wanted = new Set(selectedTasks(rule));
  const states: readonly TaskState[] =
    end === "failed" || end === "completed"
      ? ["failed"]
      : ["failed", "cancelled", "waiting", "running"];
  const found: number[] = [];
  for (let from = 0; from < rule.count;) {
    const { tasks } = await tasksOf({ from, count: MAX_TASK_PAGE });
    for (const { task, state } of tasks)
      if (states.includes(state) && wanted.has(task)) found.push(task);
    from += MAX_TASK_PAGE;
  }
  if (found.length > 0) return formatTaskRanges(found);
  throw new OrbweaverError(
    "NOT_ALLOWED",
    `no task of job ${jobId} failed. Name the tasks that are to run again (--task).`,
  );
}
