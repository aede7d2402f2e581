/**
 * @file The life of a job as one state: its own machine until its file is read, and the array's from then on where the file describes one.
 *
 * As `workflows/job/job.ts` hands a job over; answers to commands of the job alone go nowhere once the array has begun.
 */

import type { ArrayCommand, ArrayEvent, JobArray } from "../../machines/array/array-state.ts";
import { arrayMachine, openArray } from "../../machines/array/job-array.ts";
import { jobMachine } from "../../machines/job/job.ts";
import type { Job, JobCommand, JobEvent, JobOutcome } from "../../machines/job/job-state.ts";
import type { Machine, Step, Tick } from "../../machines/machine.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { Planted } from "../planted.ts";
import type { WorkflowRun } from "../temporal/workflow.ts";

export interface JobLife {
  readonly job: Job;
  readonly array?: JobArray;
  /** So many of its followers have been told of its end, or are being told. */
  readonly toldEnd: number;
  readonly isTelling: boolean;
}

/** Answers to an array's commands are told apart from those to its job's. */
export type LifeEvent =
  | JobEvent
  | { readonly kind: "of array"; readonly event: ArrayEvent }
  | { readonly kind: "end told" };

export type LifeCommand =
  | JobCommand
  | { readonly kind: "of array"; readonly command: ArrayCommand }
  /** Answered by `end told`. */
  | {
      readonly kind: "tell end";
      readonly followers: readonly JobId[];
      readonly state: JobOutcome["kind"];
    };

export type JobRun = WorkflowRun<JobLife, LifeEvent>;

type LifeStep = Step<JobLife, LifeCommand>;

export const lifeOf = (job: Job): JobLife => ({ job, toldEnd: 0, isTelling: false });

export function lifeMachine(planted: Planted): Machine<JobLife, LifeEvent, LifeCommand> {
  const ofJob = planted.job?.(jobMachine) ?? jobMachine;
  const ofArray = planted.array?.(arrayMachine) ?? arrayMachine;

  function step(life: JobLife, event: LifeEvent | Tick, nowMs: number): LifeStep {
    const { job, array } = life;
    if (event.kind === "end told") return still({ ...life, isTelling: false });
    if (array !== undefined) {
      const said = saidToArray(event);
      return said === undefined ? still(life) : arrayStep(life, ofArray.step(array, said, nowMs));
    }
    if (event.kind === "of array") return still(life);
    const next = ofJob.step(job, event, nowMs);
    const told = { ...life, job: next.state };
    const begun = beginArray(told, nowMs);
    return begun === undefined
      ? { state: told, commands: next.commands }
      : { state: begun.state, commands: [...next.commands, ...begun.commands] };
  }

  return {
    step: (life, event, nowMs) => tellEnd(step(life, event, nowMs)),
    dueAtMs: ({ job, array }) =>
      array === undefined ? ofJob.dueAtMs(job) : ofArray.dueAtMs(array),
  };
}

/** Also those that come while the others are told. */
function tellEnd({ state: life, commands }: LifeStep): LifeStep {
  const state = decidedOf(life)?.kind;
  const followers = followersOf(life).jobs.slice(life.toldEnd);
  if (state === undefined || life.isTelling || followers.length === 0)
    return { state: life, commands };
  return {
    state: { ...life, isTelling: true, toldEnd: life.toldEnd + followers.length },
    commands: [...commands, { kind: "tell end", followers, state }],
  };
}

/** Its outcome, once all have heard of it; undefined while it runs. */
export const outcomeOf = (life: JobLife): JobOutcome | undefined =>
  life.isTelling ? undefined : decidedOf(life);

/** Undefined while it runs. */
export const decidedOf = ({ job, array }: JobLife): JobOutcome | undefined => {
  if (array !== undefined) return array.phase.kind === "over" ? array.phase.outcome : undefined;
  return job.stage.kind === "over" ? job.stage.outcome : undefined;
};

const followersOf = ({ job, array }: JobLife): JobArray["followers"] => (array ?? job).followers;

/** What the world says of it. */
export const stageOf = ({ job, array }: JobLife): string =>
  array === undefined ? job.stage.kind : `an array that is ${array.phase.kind}`;

const still = (state: JobLife): LifeStep => ({ state, commands: [] });

const arrayStep = (
  life: JobLife,
  { state: array, commands }: Step<JobArray, ArrayCommand>,
): LifeStep => ({
  state: { ...life, array },
  commands: commands.map((command) => ({ kind: "of array", command })),
});

function saidToArray(event: LifeEvent | Tick): ArrayEvent | Tick | undefined {
  switch (event.kind) {
    case "of array":
      return event.event;
    case "tick":
    case "grants":
    case "pending":
    case "preempt":
    case "fenced":
    case "assert":
    case "follow":
    case "call-in":
    case "junk":
    case "hold":
    case "release":
    case "suspend":
    case "requeue":
    case "amend":
    case "cancel":
    case "kill":
    case "cancel-tasks":
    case "retry-tasks":
      return event;
    default:
      return undefined;
  }
}

function beginArray(life: JobLife, nowMs: number): LifeStep | undefined {
  const { job } = life;
  const { stage, spec, home: fleet, jobId, runId, isHeld, pause, lane, reason, isKilled } = job;
  if (stage.kind !== "array" || spec?.array === undefined) return undefined;
  const { submittedAtMs, marks, followers, amended, junkSignals, predecessors: after } = job;
  const { earlyGrants, call, eligibleAtMs, tasks } = job;
  const entry = {
    ...{ rules: stage.rules, jobId, runId, fleet, spec, rule: spec.array, submittedAtMs },
    ...{ entered: stage.notified, isHeld, isAsked: lane.isAsked, marks, followers, amended },
    ...{ junkSignals, earlyGrants },
    ...(lane.askedRun !== undefined && { askedRun: lane.askedRun }),
    ...(pause !== undefined && { pause }),
    ...(reason !== undefined && { reason }),
    ...(isKilled === true && { isKilled }),
    ...(call !== undefined && { call }),
    ...(tasks !== undefined && { tasks }),
    ...(after.length > 0 && { after }),
    ...(eligibleAtMs !== undefined && { eligibleAtMs }),
  };
  return arrayStep(life, openArray(entry, nowMs));
}
