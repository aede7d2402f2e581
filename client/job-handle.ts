/**
 * @file One job, for callers: look at it, wait for its end, cancel, hold and retry it.
 *
 * Every answer comes from the job's own workflow or from its fleet; a handle holds only ids.
 */

import {
  isGrpcDeadlineError,
  WorkflowFailedError,
  type Client,
  type WorkflowHandle,
} from "@temporalio/client";
import {
  ApplicationFailure,
  CancelledFailure,
  TerminatedFailure,
  TimeoutFailure,
} from "@temporalio/common";
import { setTimeout as sleep } from "node:timers/promises";
import { withoutSteps } from "../domain/job/task-ranges.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { jobId as toJobId, type JobId } from "../domain/values/ids.ts";
import {
  cancelTasksUpdate,
  explainQuery,
  FLEET_TASK_QUEUE,
  fleetWorkflowId,
  holdUpdate,
  JOB_TASK_QUEUE,
  JOB_WORKFLOW,
  jobViewQuery,
  killSignal,
  moveUpdate,
  releaseUpdate,
  requeueUpdate,
  retryTasksUpdate,
  suspendUpdate,
  tasksQuery,
  type AmendAnswer,
  type FleetAnswer,
  type JobFailureDetails,
  type JobResult,
  type JobState,
  type JobView,
  type LobbyPlace,
  type MoveAnswer,
  type TaskOrderAnswer,
  type TaskPage,
  type TaskQuery,
  wordUpdate,
} from "../protocol/messages.ts";
import { hearsNoSignal } from "../protocol/signal-limit.ts";
import type { AmendOptions, NewSettings } from "./amendment.ts";
import { pauseMs } from "./ask-again.ts";
import { readView } from "./read-view.ts";
import { stateOf } from "./listed-job.ts";
import { withGpuUse } from "./gpu-use.ts";
import { lobbyPlaceOf } from "./lobby-place.ts";
import { readJobLogs } from "./job-logs.ts";
import { ordered, signalProven, userProof, type OrderCall } from "./orders.ts";
import type { LogOptions } from "./log-options.ts";
import type { Rerun, RerunOptions } from "./rerun.ts";
import { runProgress, type ProgressOptions, type RunProgress } from "./run-progress.ts";
import { USER_KEY } from "./search-keys.ts";
import { asked, translated } from "./server-error.ts";
import { queried } from "./waking.ts";

export interface JobHandle {
  readonly jobId: JobId;
  /** The job's state: its spec, its attempts, and the reason that it last received for waiting. */
  readonly view: () => Promise<JobView>;
  /** Waits for the end and returns it as a value. */
  readonly outcome: () => Promise<JobOutcome>;
  /** Waits for the end; throws any end but completion with its code. */
  readonly result: () => Promise<JobResult>;
  /** Whether its cancellation was requested and, once it has ended, when and how. */
  readonly ending: () => Promise<JobEnding>;
  /** Requests cancellation, with a checkpoint first unless it is forced (KILL at once); returns when the request is recorded. */
  readonly cancel: (options?: CancelOptions) => Promise<void>;
  /** Submits the same file as a new job, signed by who asks; of an array, its tasks that failed. Throws NOT_ALLOWED for a job that has not ended. */
  readonly rerun: (options?: RerunOptions) => Promise<Rerun>;
  /** Of a job array: tasks from a number on, at most 1,000 a call. */
  readonly tasks: (query: TaskQuery) => Promise<TaskPage>;
  /** Of a job array, tasks as in `3,7-9`: waiting ones never start, running ones are stopped. */
  readonly cancelTasks: (tasks: string) => Promise<TaskOrderAnswer>;
  /** Of a job array that has not ended: runs ended tasks again. */
  readonly retryTasks: (tasks: string) => Promise<TaskOrderAnswer>;
  readonly hold: () => Promise<JobState>;
  /** Ends a hold or a suspension. */
  readonly release: () => Promise<JobState>;
  /** Ends the run with a checkpoint, gives the GPUs back and holds the job. */
  readonly suspend: () => Promise<JobState>;
  /** Ends the run with a checkpoint; the job asks again at once, with its age. */
  readonly requeue: () => Promise<JobState>;
  /**
   * Has another fleet run it, after the end of its run with a checkpoint; returns once the order is recorded. Throws NEVER_STARTS where that fleet would not
   * start it, NOT_ALLOWED where it cannot leave. With `isQueuedAnyway` that fleet need not answer.
   */
  readonly move: (fleet: string, options?: MoveOptions) => Promise<MoveAnswer>;
  /** Changes settings of a job that waits or runs; see `docs/jobs.md` for those that a run keeps. Throws NEVER_STARTS where its fleet would not start it so. */
  readonly amend: (settings: NewSettings, options?: AmendOptions) => Promise<AmendAnswer>;
  /** The output of the ranks: in order for one rank, in order of arrival for several. */
  readonly logs: (options?: LogOptions) => AsyncIterable<string>;
  /** Of each host of a running job, as far as its agent has reported. */
  readonly progress: (options?: ProgressOptions) => Promise<readonly RunProgress[]>;
  /** Why the job waits or where it runs, with the fleet's current numbers. */
  readonly explain: () => Promise<JobExplanation>;
}

export interface CancelOptions {
  /** No checkpoint and no grace. */
  readonly isForced?: boolean;
}

export interface MoveOptions {
  /** Also to a fleet that would never start it. */
  readonly isQueuedAnyway?: boolean;
}

export type JobOutcome =
  | { readonly kind: "completed"; readonly result: JobResult }
  | { readonly kind: "failed"; readonly message: string; readonly failure: JobFailureDetails }
  | { readonly kind: "cancelled" }
  /** Ended from outside its own workflow code, e.g. from Temporal's UI. */
  | { readonly kind: "terminated"; readonly message: string };

/** What Temporal records of a job, whatever the job itself reports: by whom it was submitted, and its end. */
export interface JobEnding {
  /** As its submission says; absent of a job that a plain Temporal client submitted. */
  readonly user?: string;
  readonly isCancelAsked: boolean;
  readonly endedAtMs?: number;
  /** Absent while the job has not ended. */
  readonly outcome?: JobOutcome;
}

export interface JobExplanation {
  readonly view: JobView;
  readonly ending: JobEnding;
  /** `unknown` when the fleet has no request or lease of the job; absent when no fleet answers. */
  readonly fleet?: FleetAnswer;
  /** Where it stands outside, for a job for which its fleet has no place. */
  readonly lobby?: LobbyPlace;
}

/** `by`: the name of who gives it orders, as the job shows it. */
export function openJob(client: Client, id: string, by: string): JobHandle {
  const jobId = parsedJobId(id);
  const workflow = client.workflow.getHandle(jobId);
  const subject = `job ${jobId}`;
  const view = (): Promise<JobView> =>
    queried(client, subject, {
      taskQueue: JOB_TASK_QUEUE,
      query: () => workflow.query(jobViewQuery),
    });
  const outcome = (): Promise<JobOutcome> => untilEnd(workflow, subject);
  const described = () => asked(client, subject, () => workflow.describe());
  const ending = async (): Promise<JobEnding> => {
    const { status, closeTime, raw, typedSearchAttributes } = await described();
    const user = typedSearchAttributes.get(USER_KEY);
    return {
      ...(user !== undefined && { user }),
      isCancelAsked: raw.workflowExtendedInfo?.cancelRequested === true,
      ...(closeTime !== undefined && { endedAtMs: closeTime.getTime() }),
      ...(status.name !== "RUNNING" && { outcome: await outcome() }),
    };
  };
  const call: OrderCall = { client, workflowId: jobId, subject };
  const give = (update: typeof holdUpdate): Promise<JobState> => ordered(call, update, { by });
  const end = async (): Promise<string | undefined> => (await ending()).outcome?.kind;
  const tasksOf = (query: TaskQuery): Promise<TaskPage> =>
    queried(client, subject, {
      taskQueue: JOB_TASK_QUEUE,
      query: () => workflow.query(tasksQuery, query),
    });
  return {
    jobId,
    view,
    outcome,
    ending,
    result: async () => resultOf(jobId, await outcome()),
    // Reading job files costs a list of jobs more than the list itself.
    rerun: async (rerun = {}) =>
      await (await import("./rerun.ts")).rerunJob({ client, jobId, view, end, tasksOf }, rerun),
    cancel: async ({ isForced = false } = {}) => {
      // Temporal accepts cancellation for any id, even of an ended job or of a fleet.
      const { type, status } = await described();
      if (type !== JOB_WORKFLOW) {
        throw new OrbweaverError("NOT_FOUND", `${subject} is a workflow of another kind`);
      }
      if (status.name !== "RUNNING") {
        const state = stateOf(status.name, undefined);
        throw new OrbweaverError("NOT_ALLOWED", `${subject} has already ended (${state})`);
      }
      // Also where it is being stopped already: the kill overtakes the graceful stop.
      if (isForced) await asked(client, subject, () => kill(client, jobId));
      await asked(client, subject, () => workflow.cancel());
    },
    tasks: tasksOf,
    cancelTasks: async (tasks) => {
      await insistOnArray(view);
      return await ordered(call, cancelTasksUpdate, { tasks: withoutSteps(tasks) });
    },
    retryTasks: async (tasks) => {
      await insistOnArray(view);
      return await ordered(call, retryTasksUpdate, { tasks: withoutSteps(tasks) });
    },
    hold: () => give(holdUpdate),
    suspend: () => give(suspendUpdate),
    requeue: () => give(requeueUpdate),
    move: async (fleet, { isQueuedAnyway = false } = {}) => {
      const there = client.workflow.getHandle(fleetWorkflowId(fleet));
      await asked(client, `fleet ${fleet}`, () => there.describe());
      const spec = isQueuedAnyway ? undefined : (await view()).spec;
      if (spec !== undefined) {
        const { checkChange } = await import("./never-starts.ts");
        await checkChange(client, spec, { jobId, fleet, isNot: "moved" });
      }
      return await ordered(call, moveUpdate, { by, fleet });
    },
    amend: async (settings, amend = {}) => {
      const { amendJob, changesOf } = await import("./amendment.ts");
      return await amendJob({ client, jobId, view, by }, changesOf(settings), amend);
    },
    release: () => ordered(call, releaseUpdate, null),
    logs: (options = {}) => readJobLogs({ client, jobId, view }, options),
    progress: async ({ isBrief = false } = {}) => {
      const runs = await runProgress(client, jobId);
      if (runs.length === 0 || isBrief) return runs;
      const { fleet, attempts, array } = await view();
      const gpus = array?.leases.flatMap((lease) => lease.gpus) ?? attempts.at(-1)?.gpus ?? [];
      return await withGpuUse(runs, { client, fleet, gpus });
    },
    explain: () => settled(async () => explain(client, ...(await Promise.all([view(), ending()])))),
  };
}

/** A run that has had all the signals that Temporal takes for it is told by an update. */
async function kill(client: Client, jobId: JobId): Promise<void> {
  const signal = killSignal.name;
  const proof = userProof({ workflowId: jobId, signal, value: undefined });
  try {
    await signalProven(client, { workflowId: jobId, signal, proof });
  } catch (error) {
    if (!hearsNoSignal(error)) throw error;
    const word = { signal, proof };
    await client.workflow.getHandle(jobId).executeUpdate(wordUpdate, { args: [word] });
  }
}

const ENDED: ReadonlySet<JobState> = new Set(["completed", "failed", "cancelled"]);

async function insistOnArray(view: () => Promise<JobView>): Promise<void> {
  const { array, jobId, spec, state } = await readView(view);
  // Of one that has ended, whose tasks may never have begun, the server says so.
  if (array !== undefined || (spec?.array !== undefined && ENDED.has(state))) return;
  if (spec?.array !== undefined)
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `job ${jobId} waits for other jobs under the rules of a former release, by which its tasks cannot be reached before those have come. Cancel or hold the whole job, or try again later.`,
    );
  throw new OrbweaverError("NOT_ALLOWED", `job ${jobId} is not a job array, so it has no tasks`);
}

/** Throws BAD_INPUT. */
export function parsedJobId(id: string): JobId {
  try {
    return toJobId(id);
  } catch (error) {
    throw new OrbweaverError("BAD_INPUT", error instanceof Error ? error.message : String(error));
  }
}

/** A job that was just submitted is on its way into its fleet; until it is there, nobody knows why it waits. */
async function settled(ask: () => Promise<JobExplanation>): Promise<JobExplanation> {
  const untilMs = Date.now() + ON_ITS_WAY_MS;
  for (let tries = 0; ; tries += 1) {
    const explanation = await ask();
    if (!isOnItsWay(explanation) || Date.now() >= untilMs) return explanation;
    await sleep(pauseMs(tries));
  }
}

const ON_ITS_WAY_MS = 5_000;

const isOnItsWay = ({ view, ending, fleet }: JobExplanation): boolean =>
  fleet?.kind === "unknown" &&
  ending.outcome === undefined &&
  view.state === "pending" &&
  view.pending === undefined;

async function explain(client: Client, view: JobView, ending: JobEnding): Promise<JobExplanation> {
  const fleet = client.workflow.getHandle(fleetWorkflowId(view.fleet));
  try {
    const answer = await queried(client, `fleet ${view.fleet}`, {
      taskQueue: FLEET_TASK_QUEUE,
      query: () => fleet.query(explainQuery, view.jobId),
    });
    const lobby = answer.kind === "unknown" ? await lobbyPlaceOf(client, view) : undefined;
    return { view, ending, fleet: answer, ...(lobby !== undefined && { lobby }) };
  } catch (error) {
    // The job's own state is still useful when its fleet does not answer.
    if (error instanceof OrbweaverError) return { view, ending };
    throw error;
  }
}

async function untilEnd(workflow: WorkflowHandle, subject: string): Promise<JobOutcome> {
  for (;;) {
    try {
      // The job workflow returns a JobResult; a handle made from an id cannot know that.
      return { kind: "completed", result: (await workflow.result()) as JobResult };
    } catch (error) {
      // A proxy may cut a long poll; the job is not affected.
      if (isGrpcDeadlineError(error)) continue;
      if (!(error instanceof WorkflowFailedError)) throw translated(error, subject);
      return outcomeOf(error, subject);
    }
  }
}

function outcomeOf(error: WorkflowFailedError, subject: string): JobOutcome {
  const { cause } = error;
  if (cause instanceof CancelledFailure) return { kind: "cancelled" };
  if (cause instanceof TerminatedFailure || cause instanceof TimeoutFailure) {
    return { kind: "terminated", message: `${subject} was ended from outside: ${cause.message}` };
  }
  const failure = translated(error, subject);
  if (failure instanceof OrbweaverError) {
    const { code, message, details } = failure;
    return {
      kind: "failed",
      message,
      failure: isDetails(details) ? details : { code, attempts: 0 },
    };
  }
  const message = cause instanceof ApplicationFailure ? cause.message : error.message;
  return { kind: "terminated", message: `${subject} failed by itself: ${message}` };
}

function isDetails(value: unknown): value is JobFailureDetails {
  return typeof value === "object" && value !== null && "code" in value && "attempts" in value;
}

/** The result, or the error of any other end. */
export function resultOf(jobId: JobId, outcome: JobOutcome): JobResult {
  switch (outcome.kind) {
    case "completed":
      return outcome.result;
    case "failed":
      throw new OrbweaverError(outcome.failure.code, outcome.message, { details: outcome.failure });
    case "cancelled":
      throw new OrbweaverError("STOPPED", `job ${jobId} was cancelled`);
    case "terminated":
      throw new OrbweaverError("STOPPED", outcome.message);
  }
}
