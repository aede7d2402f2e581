/** @file The log of one task of a job array: the output of its last attempt, once or, when followed, until the task ends. */

import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError } from "../domain/values/failure.ts";
import { JOB_TASK_QUEUE, tasksQuery, type TaskView } from "../protocol/messages.ts";
import { pauseMs } from "./ask-again.ts";
import { stateOf } from "./listed-job.ts";
import type { LoggedJob, LogOptions } from "./log-options.ts";
import { openLogSession } from "./log-session.ts";
import { readRankLog } from "./rank-log.ts";
import { asked } from "./server-error.ts";
import { queried } from "./waking.ts";

/** Between two looks for the task's start. */
const MOST_PAUSE_MS = 1_000;

export async function* readTaskLogs(
  job: LoggedJob,
  task: number,
  options: LogOptions,
): AsyncGenerator<string> {
  if (options.rank === "all") {
    throw new OrbweaverError(
      "BAD_INPUT",
      "only one rank of a task can be shown. Name it, e.g. --rank 1.",
    );
  }
  const { client, jobId } = job;
  const { fleet } = await job.view();
  const { host, leaseId } = await startedTask(job, task, options.follow === true);
  const session = openLogSession(client, { jobId, fleet }, options.reader);
  const place = { jobId, host, leaseId, rank: options.rank ?? 0, task };
  try {
    yield* readRankLog(session, place, {
      isFollowed: options.follow === true,
      ...(options.tail !== undefined && { tailLines: options.tail }),
      onDropped: (bytes) => options.onDropped?.(place.rank, bytes),
      onLost: () => options.onLost?.(place.rank),
      isOver: async () => !isOpen(await taskView(job, task)),
    });
  } finally {
    await session.end();
  }
}

const isOpen = ({ state }: TaskView): boolean => state === "waiting" || state === "running";

/** Waits for the task's start when it is followed; refuses one that has none. */
async function startedTask(
  job: LoggedJob,
  task: number,
  isFollowed: boolean,
): Promise<Required<Pick<TaskView, "host" | "leaseId">>> {
  const workflow = job.client.workflow.getHandle(job.jobId);
  for (let tries = 0; ; tries += 1) {
    // Read the end first, so that a task that started in between is found.
    const { status } = await asked(job.client, `job ${job.jobId}`, () => workflow.describe());
    const { host, leaseId, state } = await taskView(job, task);
    if (host !== undefined && leaseId !== undefined) return { host, leaseId };
    const name = `task ${String(task)} of job ${job.jobId}`;
    if (state !== "waiting" || status.name !== "RUNNING") {
      const ended = state === "waiting" ? stateOf(status.name, undefined) : state;
      throw new OrbweaverError("NOT_FOUND", `${name} never started (${ended}); it has no log`);
    }
    if (!isFollowed) {
      const remedy = "Follow it (-f) to wait for its log.";
      throw new OrbweaverError("NOT_ALLOWED", `${name} waits and has not started yet. ${remedy}`);
    }
    await sleep(pauseMs(tries, MOST_PAUSE_MS));
  }
}

async function taskView({ client, jobId }: LoggedJob, task: number): Promise<TaskView> {
  const workflow = client.workflow.getHandle(jobId);
  const query = { from: task, count: 1 };
  const { tasks } = await queried(client, `job ${jobId}`, {
    taskQueue: JOB_TASK_QUEUE,
    query: () => workflow.query(tasksQuery, query),
  });
  const [found] = tasks;
  if (found !== undefined) return found;
  throw new OrbweaverError("NOT_FOUND", `job ${jobId} has no task ${String(task)}`);
}
