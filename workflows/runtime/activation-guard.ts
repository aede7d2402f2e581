/**
 * @file Refuses an activation with news that no live workflow task stands behind, so that the worker starts the run afresh.
 *
 * A query that waited for a frozen worker may reach it together with events that came after it was asked. Core (SDK 1.24) lets a cached
 * workflow act on them at once, as part of answering; the commands go out with the task that those events belong to. If that task has timed out
 * by then (a worker frozen for longer than a task may take), they are lost, and the run goes on in a state that is in no history: nobody can
 * replay it. Such an activation shows by its time, which is that of its newest started task: either the same as the activation's before it
 * (the task of the news has not even started), or older than a task may become. What began before this thread stood still is refused as well: the
 * news of a task may have reached the run with a question, and the task itself have timed out beside it, without a sign in either.
 * A refused activation fails the query, which is asked again, and drops the run from the cache; its next task replays the history as it is.
 * An interceptor of all workflows; it issues no commands, and decides nothing in replay. Cost: microseconds an activation.
 */

import {
  workflowInfo,
  type ActivateInput,
  type WorkflowInterceptors,
  type WorkflowInterceptorsFactory,
} from "@temporalio/workflow";
import { FLEET_TASK_QUEUE, JOB_TASK_QUEUE, UNTIMELY_NEWS } from "../../protocol/messages.ts";
import { ages, wallClockMs } from "./task-age.ts";

type Activation = ActivateInput["activation"];
type Job = NonNullable<Activation["jobs"]>[number];

/** Not in what replays histories: their last tasks are as old as they are. */
const LIVE_QUEUES: ReadonlySet<string> = new Set([FLEET_TASK_QUEUE, JOB_TASK_QUEUE]);

export const interceptors: WorkflowInterceptorsFactory = (): WorkflowInterceptors => {
  const { taskQueue, taskTimeoutMs } = workflowInfo();
  return LIVE_QUEUES.has(taskQueue) ? guard(taskTimeoutMs) : {};
};

function guard(taskTimeoutMs: number): WorkflowInterceptors {
  /** The times of the activation that goes on, and of the one before it. */
  let timeNow: string | undefined;
  let timeBefore: string | undefined;
  return {
    internals: [
      {
        activate(input, next) {
          const { activation } = input;
          timeNow = timeOf(activation);
          if (activation.isReplaying !== true && activation.jobs?.some(isNews) === true) {
            if (
              ages.isTooOld(millisecondsOf(activation), wallClockMs(), taskTimeoutMs) ||
              timeNow === timeBefore
            ) {
              throw new Error(UNTIMELY_NEWS);
            }
          }
          next(input);
        },
        concludeActivation(input, next) {
          timeBefore = timeNow;
          return next(input);
        },
      },
    ],
  };
}

/** Nanoseconds tell any two workflow tasks of a run apart. */
const timeOf = ({ timestamp }: Activation): string =>
  `${String(timestamp?.seconds)}.${String(timestamp?.nanos)}`;

const millisecondsOf = ({ timestamp }: Activation): number =>
  Number(timestamp?.seconds ?? 0) * 1_000 + (timestamp?.nanos ?? 0) / 1e6;

/**
 * Within a task that goes on come only the ends of local activities, questions, and the cancelled ends of activities that the workflow
 * itself has just asked to cancel without waiting for them.
 */
const isNews = ({ signalWorkflow, fireTimer, resolveActivity, cancelWorkflow }: Job): boolean =>
  isSet(signalWorkflow) ||
  isSet(fireTimer) ||
  isSet(cancelWorkflow) ||
  (isSet(resolveActivity) &&
    resolveActivity.isLocal !== true &&
    !isSet(resolveActivity.result?.cancelled));

const isSet = <Value>(value: Value | null | undefined): value is Value =>
  value !== null && value !== undefined;
