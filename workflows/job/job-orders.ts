/** @file The orders of people that a job takes while it is no array: each is looked at by the job's machine, and refused with its reason. */

import { ApplicationFailure, setHandler } from "@temporalio/workflow";
import { tasksView } from "../../machines/array/array-view.ts";
import { cancelAnswer, retryAnswer } from "../../machines/array/named-tasks.ts";
import { openTable, type TaskTable } from "../../machines/array/task-table.ts";
import { amendAnswer, readJobAmendment } from "../../machines/job/amended.ts";
import { refuseEarlyTasks } from "../../machines/job/early-tasks.ts";
import type { Job, JobEvent } from "../../machines/job/job-state.ts";
import { moveAnswer, moveProblem } from "../../machines/job/moved.ts";
import { holdProblem, requeueProblem, suspendProblem } from "../../machines/job/paused.ts";
import {
  amendUpdate,
  cancelTasksUpdate,
  holdUpdate,
  moveUpdate,
  releaseUpdate,
  requeueUpdate,
  retryTasksUpdate,
  suspendUpdate,
  tasksQuery,
  type JobState,
} from "../../protocol/messages.ts";
import type { Drive } from "../runtime/drive.ts";
import { answerAboutOrders, onOrder } from "../runtime/orders.ts";

export function acceptOrders({ state, feed }: Pick<Drive<Job, JobEvent>, "state" | "feed">): void {
  const junk = (): void => feed({ kind: "junk" });
  const unless = (problemOf: (job: Job) => string | undefined) => (): void => {
    const problem = problemOf(state());
    if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, "NOT_ALLOWED");
  };
  onOrder(
    holdUpdate,
    {
      check: unless(holdProblem),
      carryOut: (order): JobState => {
        feed({ kind: "hold", order });
        return "held";
      },
    },
    junk,
  );
  onOrder(
    suspendUpdate,
    {
      check: unless(suspendProblem),
      carryOut: (order): JobState => {
        feed({ kind: "suspend", order });
        return state().givenUp === undefined ? "held" : "stopping";
      },
    },
    junk,
  );
  onOrder(
    requeueUpdate,
    {
      check: unless(requeueProblem),
      carryOut: (order): JobState => {
        feed({ kind: "requeue", order });
        return "stopping";
      },
    },
    junk,
  );
  onOrder(
    moveUpdate,
    {
      check: (order) => {
        const problem = moveProblem(state(), order);
        if (problem !== undefined)
          throw ApplicationFailure.nonRetryable(problem.message, problem.code);
      },
      carryOut: (order) => {
        feed({ kind: "move", order });
        return moveAnswer(state());
      },
    },
    junk,
  );
  const amendment = (order: unknown) => {
    const read = readJobAmendment(state(), order, Date.now());
    if ("code" in read) throw ApplicationFailure.nonRetryable(read.message, read.code);
    return read;
  };
  onOrder(
    amendUpdate,
    {
      check: (order) => void amendment(order),
      carryOut: (order) => {
        const answer = amendAnswer(state(), amendment(order));
        feed({ kind: "amend", order });
        return answer;
      },
    },
    junk,
  );
  onOrder(
    releaseUpdate,
    {
      check: () => undefined,
      carryOut: (): JobState => {
        const { shown } = state();
        feed({ kind: "release" });
        return shown === "held" ? "pending" : shown;
      },
    },
    junk,
  );
  answerAboutOrders();
}

/** Of an array that waits for other jobs; its own handlers replace these. */
export function acceptTaskOrders({
  state,
  feed,
}: Pick<Drive<Job, JobEvent>, "state" | "feed">): void {
  const junk = (): void => feed({ kind: "junk" });
  const tasks = (): TaskTable => state().tasks ?? openTable(0);
  setHandler(tasksQuery, (query) => tasksView(tasks(), query));
  const check = (order: unknown): void => {
    const refusal = refuseEarlyTasks(state(), order);
    if (refusal !== undefined) throw ApplicationFailure.nonRetryable(refusal.message, refusal.code);
  };
  onOrder(
    cancelTasksUpdate,
    {
      check,
      carryOut: (order) => {
        const answer = cancelAnswer(tasks(), order);
        feed({ kind: "cancel-tasks", order });
        return answer;
      },
    },
    junk,
  );
  onOrder(
    retryTasksUpdate,
    {
      check,
      carryOut: (order) => {
        const answer = retryAnswer(tasks(), order);
        feed({ kind: "retry-tasks", order });
        return answer;
      },
    },
    junk,
  );
}
