/**
 * @file The tasks of an array that waits for other jobs: people cancel some of them, or have them run after all, before any fleet has heard of it.
 *
 * The array takes them over as they are. One of which nobody wants a task any more does not wait for the others: it goes on, and ends.
 */

import type { JobSpec } from "../../domain/job/job.ts";
import { EARLY_TASKS_RULES } from "../../protocol/control-contract.ts";
import type { ArrayView, TaskOrder } from "../../protocol/job.ts";
import { openTasks, refuseUnnamed, withCancelled, withRenewed } from "../array/named-tasks.ts";
import { hasEnded } from "../array/task-table.ts";
import { notAllowed, type OrderRefusal } from "./order-refusal.ts";
import type { Job } from "./job-state.ts";

/** None of a job that is no array, nor under rules by which nobody can reach them. */
export const openEarlyTasks = ({ array }: JobSpec, rules: number): Pick<Job, "tasks"> =>
  array === undefined || rules < EARLY_TASKS_RULES ? {} : { tasks: openTasks(array) };

export function refuseEarlyTasks(job: Job, order: unknown): OrderRefusal | undefined {
  const { jobId, tasks, stage, reason } = job;
  if (reason !== undefined || stage.kind === "over") return notAllowed(`job ${jobId} is ending`);
  if (tasks === undefined || stage.kind !== "following")
    return notAllowed(`job ${jobId} is just beginning its tasks. Try again.`);
  return refuseUnnamed({ jobId, count: tasks.count }, order);
}

export function orderEarlyTasks(
  job: Job,
  { kind, order }: { readonly kind: "cancel-tasks" | "retry-tasks"; readonly order: TaskOrder },
): Job {
  if (job.tasks === undefined || refuseEarlyTasks(job, order) !== undefined) return job;
  const change = kind === "cancel-tasks" ? withCancelled : withRenewed;
  return { ...job, tasks: change(job.tasks, order) };
}

export const isWithoutTasks = ({ tasks }: Job): boolean => tasks !== undefined && hasEnded(tasks);

/** Until its own logic takes over. */
export function earlyTasksView({ tasks, spec, stage }: Job): ArrayView | undefined {
  if (tasks === undefined || spec?.array === undefined || stage.kind !== "following")
    return undefined;
  const { counts } = tasks;
  return { isUnbegun: true, ...spec.array, counts, slots: 0, leases: [], firstFailed: [] };
}
