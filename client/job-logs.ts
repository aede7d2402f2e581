/**
 * @file The logs of a job: of one rank or all ranks, of one attempt or, when followed, of every later attempt too.
 *
 * One rank's text is passed on unchanged, also where it is all ranks. Of several ranks, whole lines are passed on, each with the prefix `[rank] `.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { JobId } from "../domain/values/ids.ts";
import type { AttemptView } from "../protocol/messages.ts";
import { pauseMs } from "./ask-again.ts";
import { stateOf } from "./listed-job.ts";
import type { LoggedJob, LogOptions } from "./log-options.ts";
import { openLogSession, READERS_PER_SESSION, type LogSession } from "./log-session.ts";
import { merged } from "./merged.ts";
import { readRankLog, type RankPlace } from "./rank-log.ts";
import { readView } from "./read-view.ts";
import { asked } from "./server-error.ts";
import { readTaskLogs } from "./task-logs.ts";

/** Between two looks for the next attempt. */
const MOST_PAUSE_MS = 1_000;

export async function* readJobLogs(job: LoggedJob, options: LogOptions): AsyncGenerator<string> {
  const { array } = await (options.task === undefined ? job.view() : readView(job.view));
  if (array !== undefined) {
    yield* readTaskLogs(job, taskOf(job.jobId, array.count, options), options);
    return;
  }
  if (options.task !== undefined) {
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `job ${job.jobId} is not a job array, so it has no tasks`,
    );
  }
  const first = await firstAttempt(job, options);
  if (first === undefined) return;
  for (let attempt: AttemptView | undefined = first; attempt !== undefined;) {
    options.onAttempt?.(attempt);
    yield* readAttempt(job, attempt, options);
    await tellEnd(job, attempt, options);
    if (options.follow !== true || options.attempt !== undefined) return;
    attempt = await attemptNumber(job, attempt.attempt + 1);
  }
}

async function tellEnd(
  job: LoggedJob,
  { attempt: number }: AttemptView,
  { onAttemptEnd }: LogOptions,
): Promise<void> {
  if (onAttemptEnd === undefined) return;
  const { attempts } = await job.view();
  const ended = attempts.find(({ attempt, end }) => attempt === number && end !== undefined);
  if (ended !== undefined) onAttemptEnd(job.jobId, ended);
}

function taskOf(jobId: JobId, count: number, { task }: LogOptions): number {
  if (task !== undefined) return task;
  throw new OrbweaverError(
    "BAD_INPUT",
    `job ${jobId} is an array of ${String(count)} tasks, each with a log of its own. Name one, e.g. --task 0.`,
  );
}

async function firstAttempt(job: LoggedJob, options: LogOptions): Promise<AttemptView | undefined> {
  const { attempts } = await job.view();
  if (options.attempt === undefined) {
    const last = attempts.at(-1);
    if (last !== undefined) return last;
    if (options.follow === true) return await attemptNumber(job, 1);
    const workflow = job.client.workflow.getHandle(job.jobId);
    const { status } = await asked(job.client, `job ${job.jobId}`, () => workflow.describe());
    if (status.name !== "RUNNING") throw neverStarted(job.jobId, stateOf(status.name, undefined));
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `job ${job.jobId} has not started, so it has no logs yet. Follow it (-f) to wait for them.`,
    );
  }
  const found = attempts.find(({ attempt }) => attempt === options.attempt);
  if (found !== undefined) return found;
  throw new OrbweaverError(
    "NOT_FOUND",
    `job ${job.jobId} has no attempt ${String(options.attempt)}; it has had ${String(attempts.length)}`,
  );
}

/** The error for logs of a job that ended before it started. */
export const neverStarted = (jobId: string, state: string): OrbweaverError =>
  new OrbweaverError(
    "NOT_FOUND",
    `job ${jobId} ended (${state}) before it started, so it has no logs. \`orbweaver status ${jobId}\` says why.`,
  );

/** Waits for attempt `number`; undefined when the job ends without it. */
async function attemptNumber(job: LoggedJob, number: number): Promise<AttemptView | undefined> {
  const workflow = job.client.workflow.getHandle(job.jobId);
  for (let tries = 0; ; tries += 1) {
    // Read the end before the attempts, so that an attempt that came in between is found.
    const { status } = await asked(job.client, `job ${job.jobId}`, () => workflow.describe());
    const { attempts } = await job.view();
    const found = attempts.find(({ attempt }) => attempt === number);
    if (found !== undefined || status.name !== "RUNNING") return found;
    await sleep(pauseMs(tries, MOST_PAUSE_MS));
  }
}

async function* readAttempt(
  { client, jobId, view }: LoggedJob,
  attempt: AttemptView,
  options: LogOptions,
): AsyncGenerator<string> {
  const { fleet } = await view();
  const places = placesOf(jobId, attempt, options.rank ?? 0);
  const sessions: LogSession[] = [];
  const streams = places.map((place, index) => {
    const open = (): LogSession => openLogSession(client, { jobId, fleet }, options.reader);
    if (index % READERS_PER_SESSION === 0) sessions.push(open());
    const session = sessions[sessions.length - 1] ?? open();
    const text = readRankLog(session, place, {
      isFollowed: options.follow === true,
      ...(options.tail !== undefined && { tailLines: options.tail }),
      onDropped: (bytes) => options.onDropped?.(place.rank, bytes),
      onLost: () => options.onLost?.(place.rank),
      isOver: async () => {
        const { attempts } = await view();
        return attempts.find(({ leaseId }) => leaseId === attempt.leaseId)?.end !== undefined;
      },
    });
    return places.length > 1 ? prefixed(text, `[${String(place.rank)}] `) : text;
  });
  try {
    yield* merged(streams);
  } finally {
    await Promise.all(sessions.map((session) => session.end()));
  }
}

function placesOf(jobId: JobId, attempt: AttemptView, rank: number | "all"): readonly RankPlace[] {
  const { leaseId } = attempt;
  const places = attempt.gpus.flatMap(({ host, ranks }) =>
    ranks.map((at) => ({ jobId, host, leaseId, rank: at })),
  );
  if (rank === "all") return places;
  const place = places.find((candidate) => candidate.rank === rank);
  if (place !== undefined) return [place];
  throw new OrbweaverError(
    "NOT_FOUND",
    `job ${jobId} has no rank ${String(rank)} in attempt ${String(attempt.attempt)}; its ranks are 0 to ${String(places.length - 1)}`,
  );
}

/** Longer ones are cut, because they are held until their end has come. */
const MOST_LINE_CHARS = 65_536;

/**
 * Whole lines, each with the prefix; an unfinished last line is closed, so that streams do not run into each other. A carriage return ends a line, as
 * progress bars write them.
 */
export async function* prefixed(
  texts: AsyncIterable<string>,
  prefix: string,
): AsyncGenerator<string> {
  let rest = "";
  for await (const text of texts) {
    // The \n of a \r\n may come with the next text.
    const lines = (rest + text).split(/\r\n|\r(?!$)|\n/);
    rest = lines.pop() ?? "";
    for (; rest.length > MOST_LINE_CHARS; rest = rest.slice(MOST_LINE_CHARS))
      lines.push(rest.slice(0, MOST_LINE_CHARS));
    if (lines.length > 0) yield lines.map((line) => `${prefix}${line}\n`).join("");
  }
  if (rest !== "") yield `${prefix}${rest.replace(/\r$/, "")}\n`;
}
