/**
 * @file A job whose command is a session's (session-keeper.ts): waits until it runs, joins the session to this terminal, and leaves no job behind.
 *
 * Whatever ends the session ends the job: the command itself, the time of --idle, a preemption, a lost service. Only where this command is killed does the
 * host have to notice, within a minute.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { JobHandle, JobOutcome } from "../../client/index.ts";
import type { SessionEvents, UserSession } from "../../client/session.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { CommandContext } from "../command/command-context.ts";
import { EXIT } from "../terminal/exit-code.ts";
import { endAsJob, followJob } from "../command/job-follower.ts";
import { statusOfExit } from "./exit.ts";
import { joinStandardStreams, takeSignals } from "./standard-streams.ts";

/** In which a job whose command has ended ends by itself. */
const ENDS_WITHIN_MS = 5_000;

export async function keepSession(
  context: CommandContext,
  job: JobHandle,
  {
    open,
    hasTerminal,
  }: { readonly open: (events: SessionEvents) => UserSession; readonly hasTerminal: boolean },
): Promise<void> {
  const early = await untilRunning(context, job);
  if (early === "left") return context.exitWith(EXIT.interrupted);
  if (early !== undefined) return endAsJob(context, job.jobId, early);
  try {
    const exit = await joinStandardStreams(context, hasTerminal, open);
    context.exitWith(statusOfExit(context, exit));
  } finally {
    await endJob(context, job);
  }
}

/** Undefined once it runs; its outcome where it ended first. A signal cancels it. */
async function untilRunning(
  context: CommandContext,
  job: JobHandle,
): Promise<JobOutcome | "left" | undefined> {
  const over = new AbortController();
  let isLeft = false;
  let isRunning = false;
  context.endsByItself();
  const leave = (): void => {
    isLeft = true;
    over.abort();
  };
  const giveBack = takeSignals(leave);
  // While it was being submitted.
  if (context.io.interrupted.aborted) leave();
  try {
    const outcome = await followJob(context, job, {
      stop: over.signal,
      onState: (state) => {
        isRunning = state === "running";
        if (isRunning) over.abort();
      },
    });
    if (outcome !== undefined) return outcome;
  } finally {
    giveBack();
  }
  if (!isLeft) return undefined;
  context.say(`cancelling ${job.jobId}`);
  await job.cancel();
  return "left";
}

async function endJob({ say }: CommandContext, job: JobHandle): Promise<void> {
  try {
    const ended = await Promise.race([job.outcome(), sleep(ENDS_WITHIN_MS, undefined)]);
    if (ended === undefined) await job.cancel();
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    say(`${job.jobId} ends with its command; that could not be seen: ${error.message}`);
  }
}
