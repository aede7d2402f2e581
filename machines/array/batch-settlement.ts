/**
 * @file How each task of a batch ended: completed, failed for good, back to the queue, or cancelled.
 *
 * Failures of a task's own processes are charged to the retry rule; refusals and losses of hosts are not, but the tenth of them fails the task. Of a task over several hosts
 * the first cause counts, as in a gang: where one of them was lost, processes on the others often fail of it.
 * A task that its host does not report counts as lost. Cost: O(tasks of the batch).
 */

import type { TaskEnd } from "../../protocol/agent-contract.ts";
import { unpackEnds } from "../../protocol/packed-ends.ts";
import type { GangEnd } from "../gang/gang-end.ts";
import { MAX_UNCHARGED_FAILURES } from "../gang/retry-verdict.ts";
import {
  changeTasks,
  countFailure,
  endTask,
  returnTask,
  type TaskChanges,
} from "./task-changes.ts";
import type { TaskTable } from "./task-table.ts";

export interface BatchEnd {
  readonly end: Pick<GangEnd, "tasks" | "packedTasks" | "cause">;
  /** Tasks that were cancelled while they ran: they are not started again. */
  readonly unwanted: ReadonlySet<number>;
  /** Attempts that the retry rule allows. */
  readonly attempts: number;
  /** The whole array is being stopped, or its lease is wanted for others: stopped tasks wait again, and nothing is charged for them. */
  readonly isGivenUp: boolean;
  /** When a host of a task over several hosts was lost. */
  readonly lostAtMs?: number;
}

export interface BatchSettlement {
  readonly tasks: TaskTable;
  /** Tasks that wait again after a pause, because they failed or because their hosts were lost. */
  readonly failed: readonly number[];
  readonly lost: readonly number[];
  /** Tasks that ran to an end, and how long all of them took. */
  readonly ran: { readonly tasks: number; readonly ms: number };
}

export function settleBatch(
  table: TaskTable,
  batch: readonly number[],
  of: BatchEnd,
): BatchSettlement {
  const { tasks: plain = [], packedTasks: packed } = of.end;
  const reported = worstEnds(packed === undefined ? plain : unpackEnds(batch, packed));
  const failed: number[] = [];
  const lost: number[] = [];
  let ran = { tasks: 0, ms: 0 };
  const { tasks } = changeTasks(table, (changes) => {
    for (const task of batch) {
      const how = reported.get(task);
      if (how?.startedAtMs !== undefined && how.endedAtMs !== undefined) {
        const ranMs = Math.max(0, how.endedAtMs - how.startedAtMs);
        ran = { tasks: ran.tasks + 1, ms: ran.ms + ranMs };
      }
      const pause = settleTask(changes, task, { of, how });
      if (pause === "failed") failed.push(task);
      if (pause === "lost") lost.push(task);
    }
  });
  return { tasks, failed, lost, ran };
}

/** Why the task pauses before its next start, if it does. */
function settleTask(
  changes: TaskChanges,
  task: number,
  { of, how }: { readonly of: BatchEnd; readonly how: TaskEnd | undefined },
): "failed" | "lost" | undefined {
  const { end, unwanted, attempts, isGivenUp } = of;
  const ending = how === undefined ? {} : { how };
  if (how?.end === "completed") {
    endTask(changes, task, { state: "completed", how });
    return undefined;
  }
  if (unwanted.has(task)) {
    endTask(changes, task, { state: "cancelled", ...ending });
    return undefined;
  }
  const isLost = how?.endedAtMs !== undefined && (of.lostAtMs ?? Infinity) <= how.endedAtMs;
  if (how?.end === "failed" && !isLost) {
    // Without status and signal it was the time limit, and another start would end the same.
    const mayRetry = how.exitCode !== undefined || how.signal !== undefined;
    if (mayRetry && countFailure(changes, task, "task") < attempts) {
      returnTask(changes, task, { isPaused: true, hasRun: true });
      return "failed";
    }
    endTask(changes, task, { state: "failed", how });
    return undefined;
  }
  if (isGivenUp) {
    returnTask(changes, task, {});
    return undefined;
  }
  if (countFailure(changes, task, "host") < MAX_UNCHARGED_FAILURES) {
    returnTask(changes, task, { isPaused: true });
    return "lost";
  }
  const message = end.cause?.message ?? "its hosts were lost, or refused it, too often";
  endTask(changes, task, { state: "failed", how: { task, end: "failed", message } });
  return undefined;
}

/** The end of each task; of one that spans hosts, the worst that any of them reports, the first in time where two are as bad. */
function worstEnds(ends: readonly TaskEnd[]): ReadonlyMap<number, TaskEnd> {
  const worst = new Map<number, TaskEnd>();
  for (const end of ends) {
    const former = worst.get(end.task);
    const more = former === undefined ? 1 : BADNESS[end.end] - BADNESS[former.end];
    const isFirst = (end.endedAtMs ?? Infinity) < (former?.endedAtMs ?? Infinity);
    if (more > 0 || (more === 0 && isFirst)) worst.set(end.task, end);
  }
  return worst;
}

const BADNESS: Readonly<Record<TaskEnd["end"], number>> = {
  completed: 0,
  "not-run": 1,
  stopped: 2,
  failed: 3,
};
