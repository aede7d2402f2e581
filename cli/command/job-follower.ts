/** @file Waits for the end of a job: prints each change of its state on standard error and, where that is wanted, its output on standard output. */

import { setTimeout as sleep } from "node:timers/promises";
import type { JobHandle, JobOutcome, JobView, LogOptions } from "../../client/index.ts";
import type { JobState } from "../../protocol/messages.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { counted, durationText } from "../terminal/duration.ts";
import type { CommandContext } from "./command-context.ts";
import { logOptions, logWriter } from "./log-options.ts";
import { EXIT, exitCodeOfOutcome } from "../terminal/exit-code.ts";
import { hostsText } from "../text/place.ts";
import { wantedText } from "../text/preempted-runs.ts";
import { countsText } from "./task-table.ts";
import { aborted, untilInterrupted } from "../terminal/until-interrupted.ts";

const LOOK_EVERY_MS = 2_000;
/** A server that is away for longer is given up. */
const LOST_FOR_MS = 600_000;
/** A question that fails after longer had been heard by the server, which was lost later. */
const ANSWERED_MS = 120_000;

export interface Following {
  /** The output of all ranks goes to standard output, and control characters in it pass a terminal. */
  readonly output?: { readonly isRaw: boolean };
  /** Ends the wait, not the job; Ctrl-C when absent. */
  readonly stop?: AbortSignal;
  /** Called with each run of the job, when it is known. */
  readonly onRun?: () => void;
  /** Called with each state of the job, every few seconds. */
  readonly onState?: (state: JobState) => void;
}

/** The end of the job; undefined when the wait was ended first. */
export async function followJob(
  context: CommandContext,
  job: JobHandle,
  { output, stop = context.io.interrupted, onRun, onState }: Following = {},
): Promise<JobOutcome | undefined> {
  const stopped = aborted(stop).then(() => undefined);
  const over = new AbortController();
  const outcome = outcomeOf(context, job, stop).finally(() => {
    over.abort();
  });
  const shown =
    output === undefined ? undefined : showLogs(context, job, { ...output, stop, onRun });
  const telling = tellChanges(context, job, { end: AbortSignal.any([over.signal, stop]), onState });
  const both = Promise.all([outcome, shown, telling]).then(([end]) => end);
  return await Promise.race([both, stopped]);
}

/** The job goes on without a server's answer, so a server that is away for a while is waited for. */
async function outcomeOf(
  { say }: CommandContext,
  job: JobHandle,
  stop: AbortSignal,
): Promise<JobOutcome> {
  let lostMs: number | undefined;
  for (;;) {
    const askedMs = performance.now();
    try {
      return await job.outcome();
    } catch (error) {
      const isLost = error instanceof OrbweaverError && error.code === "NO_CONNECTION";
      const nowMs = performance.now();
      if (nowMs - askedMs > ANSWERED_MS) lostMs = undefined;
      if (!isLost || stop.aborted || nowMs - (lostMs ?? nowMs) > LOST_FOR_MS) throw error;
      if (lostMs === undefined) say(`no answer; ${job.jobId} goes on, and this command waits`);
      lostMs ??= nowMs;
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal: stop }).catch(() => undefined);
  }
}

/** Says how the job has ended, and ends the command as the job's process did. */
export function endAsJob(
  { say, exitWith }: CommandContext,
  jobId: string,
  outcome: JobOutcome,
): void {
  say(outcomeText(jobId, outcome));
  const exitCode = exitCodeOfOutcome(outcome);
  if (exitCode !== EXIT.ok) exitWith(exitCode);
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

async function showLogs(
  context: CommandContext,
  { jobId, logs }: JobHandle,
  {
    isRaw,
    stop,
    onRun,
  }: {
    readonly isRaw: boolean;
    readonly stop: AbortSignal;
    readonly onRun: Following["onRun"];
  },
): Promise<void> {
  let hasRun = false;
  let hasPrinted = false;
  const options = logOptions(context, { follow: true, rank: "all" });
  const onAttempt: LogOptions["onAttempt"] = (attempt) => {
    hasRun = true;
    onRun?.();
    options.onAttempt?.(attempt);
  };
  try {
    const write = logWriter(context.io, { isRaw });
    for await (const text of untilInterrupted(logs({ ...options, onAttempt }), stop)) {
      hasPrinted ||= text !== "";
      write(text);
    }
    if (hasRun && !hasPrinted && !stop.aborted) context.say(`${jobId} has printed nothing`);
  } catch (error) {
    // The log is lost with its host; the job's end is still reported.
    if (!(error instanceof OrbweaverError)) throw error;
    context.say(`the log cannot be followed: ${error.code}: ${error.message}`);
  }
}

async function tellChanges(
  context: CommandContext,
  job: JobHandle,
  { end, onState }: { readonly end: AbortSignal; readonly onState: Following["onState"] },
): Promise<void> {
  let lastLine = "";
  while (!end.aborted) {
    const view = await job.view().catch(() => undefined);
    if (view !== undefined) onState?.(view.state);
    const line = view && stateLine(view);
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
