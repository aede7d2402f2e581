/**
 * @file What became of each task of a batch: completed, failed for good, back to the line, or given up because it is not wanted.
 *
 * What a task's own processes did is charged to the retry rule; what hosts refused or lost is not, but no task may burn starts for
 * ever. A task that its host says nothing about counts as lost. Cost: O(tasks of the batch).
 */

import type { TaskEnd } from "../activities/agent-contract.ts";
import type { GangEnd } from "./gang-end.ts";
import { MAX_UNCHARGED_FAILURES } from "./run-verdict.ts";
import type { TaskTable } from "./task-table.ts";

export interface BatchEnd {
  readonly end: Pick<GangEnd, "tasks" | "cause">;
  /** Tasks that are not to be tried again; those of the batch are taken out. */
  readonly unwanted: Set<number>;
  /** How long tasks take: grows by what ran. */
  readonly ran: { tasks: number; ms: number };
  /** Tries that the retry rule allows. */
  readonly attempts: number;
  /** The whole array is being stopped, or its lease was wanted for others: what was stopped waits again, and is charged to nobody. */
  readonly isGivenUp: boolean;
}

/** The tasks that wait again and are to pause first: those that failed, those that hosts lost. */
export function settleBatch(
  table: TaskTable,
  tasks: readonly number[],
  { end: { tasks: ends = [], cause }, unwanted, ran, attempts, isGivenUp }: BatchEnd,
): { readonly failed: readonly number[]; readonly lost: readonly number[] } {
  const ended = worstEnds(ends);
  const failed: number[] = [];
  const lost: number[] = [];
  for (const task of tasks) {
    const how = ended.get(task);
    const isUnwanted = unwanted.delete(task);
    if (how?.startedAtMs !== undefined && how.endedAtMs !== undefined) {
      ran.tasks += 1;
      ran.ms += Math.max(0, how.endedAtMs - how.startedAtMs);
    }
    if (how?.end === "completed") table.end(task, "completed", how);
    else if (isUnwanted) table.end(task, "cancelled", how);
    else if (how?.end === "failed") {
      // Without status and signal it was the time limit: another try would end the same.
      const mayRetry = how.exitCode !== undefined || how.signal !== undefined;
      if (mayRetry && table.charge(task, "task") < attempts) {
        table.giveBack(task, { isPaused: true, hasRun: true });
        failed.push(task);
      } else table.end(task, "failed", how);
    } else if (isGivenUp) table.giveBack(task);
    else if (table.charge(task, "host") < MAX_UNCHARGED_FAILURES) {
      table.giveBack(task, { isPaused: true });
      lost.push(task);
    } else {
      const message = cause?.message ?? "its hosts were lost, or refused it, too often";
      table.end(task, "failed", { task, end: "failed", message });
    }
  }
  return { failed, lost };
}

/** What each task came to; of one that spans hosts, the worst that any of them says. */
function worstEnds(ends: readonly TaskEnd[]): ReadonlyMap<number, TaskEnd> {
  const worst = new Map<number, TaskEnd>();
  for (const end of ends) {
    const former = worst.get(end.task);
    if (former === undefined || BADNESS[end.end] > BADNESS[former.end]) worst.set(end.task, end);
  }
  return worst;
}

const BADNESS: Readonly<Record<TaskEnd["end"], number>> = {
  completed: 0,
  "not-run": 1,
  stopped: 2,
  failed: 3,
};
