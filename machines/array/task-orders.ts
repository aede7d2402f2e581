/**
 * @file Orders to tasks of an array: refuses those that make no sense, cancels tasks, and runs ended tasks again.
 *
 * A task that waits is cancelled at once. A task that runs is stopped on its hosts, and the end of its batch says how it ended.
 */

import {
  checkTaskRanges,
  formatTaskRanges,
  parseTaskRanges,
} from "../../domain/job/task-ranges.ts";
import type { TaskOrder, TaskOrderAnswer } from "../../protocol/job.ts";
import type { OrderRefusal } from "../job/amended.ts";
import type { Step } from "../machine.ts";
import { memoizeSome } from "./array-marks.ts";
import type { ArrayCommand, ArrayStep, JobArray } from "./array-state.ts";
import { batchOf, hostsOf, type HeldLease } from "./held-lease.ts";
import { changeTasks, endTask, forgetFailures, returnTask } from "./task-changes.ts";
import { stateOf } from "./task-table.ts";

/** Added to the graces: how long a host may take to carry out a stop order. */
const STOP_SLACK_MS = 60_000;

/** Refuses every order to an array that is ending. */
export const refuseEnding = ({ phase, reason, jobId }: JobArray): OrderRefusal | undefined =>
  phase.kind === "open" && reason === undefined
    ? undefined
    : { code: "NOT_ALLOWED", message: `job ${jobId} is ending` };

/** Refuses, too, an order that names no tasks of the array. */
export function refuseTasks(array: JobArray, order: unknown): OrderRefusal | undefined {
  const refusal = refuseEnding(array);
  if (refusal !== undefined) return refusal;
  const named = typeof order === "object" && order !== null && "tasks" in order ? order.tasks : "";
  const wrong = checkTaskRanges(String(named), array.rule.count);
  if (wrong === undefined) return undefined;
  const message = `tasks of ${array.jobId}: ${wrong.message}; ${wrong.remedy}`;
  return { code: "BAD_INPUT", message };
}

/** The answer to an order to cancel tasks, before the order is fed. */
export function cancelAnswer(array: JobArray, order: TaskOrder): TaskOrderAnswer {
  const { named, waiting, running } = tasksOf(array, order);
  const skipped = named.length - running.length - waiting.length;
  return { done: waiting.length, stopping: running.length, skipped };
}

/** The answer to an order to run tasks again, before the order is fed. */
export function retryAnswer(array: JobArray, order: TaskOrder): TaskOrderAnswer {
  const { named, ended } = tasksOf(array, order);
  return { done: ended.length, stopping: 0, skipped: named.length - ended.length };
}

export function cancelTasks(array: JobArray, order: TaskOrder): ArrayStep {
  const { waiting, running } = tasksOf(array, order);
  const { tasks } = changeTasks(array.tasks, (changes) => {
    for (const task of waiting) endTask(changes, task, { state: "cancelled" });
  });
  const named = new Set(running);
  const unwanted = new Set([...array.unwanted, ...running]);
  const stops = [...array.leases.values()].flatMap((held) =>
    stopCommands(
      array,
      held,
      batchOf(held).filter((task) => named.has(task)),
    ),
  );
  const { state, commands } = memoizeSome({ ...array, tasks, unwanted });
  return { state, commands: [...stops, ...commands] };
}

/** As if the tasks had never been started. */
export function retryTasks(array: JobArray, order: TaskOrder): Step<JobArray, never> {
  const { ended } = tasksOf(array, order);
  const { tasks } = changeTasks(array.tasks, (changes) => {
    for (const task of ended) {
      forgetFailures(changes, task);
      returnTask(changes, task, {});
    }
  });
  return { state: { ...array, tasks }, commands: [] };
}

/** Cancels all tasks that have no final state yet. */
export function cancelUnfinished(array: JobArray): JobArray {
  const { tasks } = changeTasks(array.tasks, (changes) => {
    for (let task = 0; task < array.rule.count; task += 1) {
      const state = stateOf(changes, task);
      if (state === "waiting" || state === "running")
        endTask(changes, task, { state: "cancelled" });
    }
  });
  return { ...array, tasks };
}

interface NamedTasks {
  readonly named: readonly number[];
  readonly waiting: readonly number[];
  readonly running: readonly number[];
  readonly ended: readonly number[];
}

function tasksOf({ tasks, rule }: JobArray, order: TaskOrder): NamedTasks {
  const read = parseTaskRanges(String(order.tasks), rule.count);
  const named = read.kind === "read" ? read.value : [];
  const waiting = named.filter((task) => stateOf(tasks, task) === "waiting");
  const running = named.filter((task) => stateOf(tasks, task) === "running");
  const isOpen = new Set([...waiting, ...running]);
  return { named, waiting, running, ended: named.filter((task) => !isOpen.has(task)) };
}

/** Orders every host of the lease to stop these tasks of the present batch. The end of the batch is the answer. */
function stopCommands(
  { jobId, spec }: JobArray,
  { grant, batchSeq, work }: HeldLease,
  tasks: readonly number[],
): readonly ArrayCommand[] {
  if (work.kind !== "running" || tasks.length === 0) return [];
  const { id: leaseId, token } = grant.lease;
  return hostsOf(grant).flatMap((host) => {
    const agent = work.gang.agents.get(host);
    if (agent === undefined) return [];
    return {
      kind: "stop-tasks",
      agent,
      order: {
        ...{ jobId, host, leaseId, token, batchSeq, tasks, reason: "cancelled" },
        ...(grant.ticket !== undefined && { ticket: grant.ticket }),
      },
      summary: `stop tasks ${formatTaskRanges(tasks).slice(0, 60)} of ${leaseId} on ${host}`,
      startToCloseMs: 2 * spec.run.graceMs + STOP_SLACK_MS,
    } as const;
  });
}
