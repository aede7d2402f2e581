/** @file Waits for the end of a job and prints each change of its state on standard error. */

import { setTimeout as sleep } from "node:timers/promises";
import type { JobHandle, JobOutcome, JobView } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { counted, durationText } from "../terminal/duration.ts";
import type { CommandContext } from "./command-context.ts";
import { logOptions, logWriter } from "./log-options.ts";
import { hostsText } from "../text/place.ts";
import { wantedText } from "../text/preempted-runs.ts";
import { countsText } from "./task-table.ts";
import { untilInterrupted } from "../terminal/until-interrupted.ts";

const LOOK_EVERY_MS = 2_000;

/** The end of the job; undefined when Ctrl-C came first. `isFollowed`: the log of rank 0 goes to standard output. */
export async function followJob(
  context: CommandContext,
  job: JobHandle,
  isFollowed: boolean,
): Promise<JobOutcome | undefined> {
  const { interrupted } = context.io;
  const stopped = new Promise<undefined>((resolve) => {
    interrupted.addEventListener("abort", () => {
      resolve(undefined);
    });
  });
  const over = new AbortController();
  const outcome = job.outcome().finally(() => {
    over.abort();
  });
  const logs = isFollowed ? showLogs(context, job) : Promise.resolve();
  const telling = tellChanges(context, job, AbortSignal.any([over.signal, interrupted]));
  const both = Promise.all([outcome, logs, telling]).then(([end]) => end);
  return await Promise.race([both, stopped]);
}

/** One line for the end of a job. */
export function outcomeText(jobId: string, outcome: JobOutcome): string {
  switch (outcome.kind) {
    case "completed": {
      const { gpus, hosts, queuedMs, ranMs, tasks } = outcome.result;
      if (tasks !== undefined)
        return `${jobId} completed: ${counted(tasks.completed, "task")}, waited ${durationText(queuedMs)}, ran ${durationText(ranMs)}`;
      return `${jobId} completed: ${counted(gpus, "GPU")} on ${hostsText(hosts)}, waited ${durationText(queuedMs)}, ran ${durationText(ranMs)}`;
    }
    case "failed":
      return `${jobId} failed: ${outcome.failure.code}: ${outcome.message}`;
    case "cancelled":
      return `${jobId} was cancelled`;
    case "terminated":
      return outcome.message;
  }
}

async function showLogs(context: CommandContext, job: JobHandle): Promise<void> {
  try {
    const texts = job.logs(logOptions(context, { follow: true }));
    const write = logWriter(context.io);
    for await (const text of untilInterrupted(texts, context.io.interrupted)) write(text);
  } catch (error) {
    // The log is lost with its host; the job's end is still reported.
    if (!(error instanceof OrbweaverError)) throw error;
    context.say(`the log cannot be followed: ${error.code}: ${error.message}`);
  }
}

async function tellChanges(
  context: CommandContext,
  job: JobHandle,
  end: AbortSignal,
): Promise<void> {
  let lastLine = "";
  while (!end.aborted) {
    const line = await job.view().then(stateLine, () => undefined);
    if (line !== undefined && line !== lastLine && !end.aborted) {
      context.say(`${job.jobId} ${line}`);
      lastLine = line;
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal: end }).catch(() => undefined);
  }
}

/** Undefined once the job has ended: its outcome says more. */
function stateLine({ jobId, state, pending, attempts, array }: JobView): string | undefined {
  if (array !== undefined && state === "running") return `is running: ${countsText(array.counts)}`;
  switch (state) {
    case "pending":
      return pending === undefined ? "waits" : `waits: ${pending.code}: ${pending.message}`;
    case "held":
      return "is held";
    case "running":
    case "stopping": {
      const last = attempts.at(-1);
      const hosts = last?.gpus.map(({ host }) => host) ?? [];
      const { preempted } = last ?? {};
      const why = preempted === undefined ? "" : ` ${wantedText(jobId, preempted)}`;
      return `is ${state} on ${hostsText(hosts)}${why}`;
    }
    default:
      return undefined;
  }
}
