/** @file What a job array shows of itself: the answers to its queries, and a few lines of Markdown in Temporal's own UI. */

import { gpuList } from "../job/job-summary.ts";
import { amendedView, junkView } from "../job/job-view.ts";
import {
  MAX_TASK_PAGE,
  type JobState,
  type JobView,
  type TaskCounts,
  type TaskPage,
  type TaskQuery,
  type TaskView,
} from "../../protocol/job.ts";
import { liveSlots, type JobArray } from "./array-state.ts";
import { batchOf } from "./held-lease.ts";
import { firstFailed, taskPage, type TaskTable } from "./task-table.ts";

const SHOWN_FAILURES = 5;
const SHOWN_LEASES = 20;

export function shownState({ phase, reason, leases, isHeld }: JobArray): JobState {
  if (phase.kind === "over") return phase.state;
  if (reason !== undefined) return "stopping";
  return leases.size > 0 ? "running" : isHeld ? "held" : "pending";
}

export function arrayView(array: JobArray): JobView {
  const { jobId, fleet, spec, submittedAtMs, rule, tasks, leases, preemptions } = array;
  const { pause, isHeld, amended, after } = array;
  const { pending } = array.requests;
  return {
    jobId,
    fleet,
    spec,
    state: shownState(array),
    ...(pending !== undefined && { pending }),
    submittedAtMs,
    ...(after !== undefined && { after }),
    attempts: [],
    ...(pause !== undefined && isHeld && { pause }),
    ...amendedView(amended),
    ...junkView(array),
    array: {
      ...rule,
      counts: tasks.counts,
      slots: liveSlots(array),
      ...(preemptions > 0 && { preemptions }),
      leases: [...leases.values()].map((held) => ({
        leaseId: held.grant.lease.id,
        slots: held.slots,
        gpus: held.grant.lease.gpus,
        grantedAtMs: held.grant.lease.grantedAtMs,
        tasks: batchOf(held).length,
        ...(held.preempt !== undefined && { preemptedFor: held.preempt.forJob }),
      })),
      firstFailed: shownFailures(array),
    },
  };
}

export const shownFailures = ({ tasks }: JobArray): readonly TaskView[] =>
  firstFailed(tasks, SHOWN_FAILURES);

export const tasksView = (tasks: TaskTable, { from, count, state }: TaskQuery): TaskPage => ({
  counts: tasks.counts,
  tasks: taskPage(tasks, {
    from: Math.max(0, Math.floor(from)),
    count: Math.min(MAX_TASK_PAGE, count),
    ...(state !== undefined && { state }),
  }),
});

export function arraySummary({ spec, state, pending, array }: JobView): string {
  if (spec === undefined || array === undefined) return "";
  const { name, tenant, class: jobClass, gang, run } = spec;
  const { count, counts, slots, leases, firstFailed, preemptions = 0 } = array;
  const lines = [
    `**${state[0]?.toUpperCase()}${state.slice(1)}: ${countsText(counts)} of ${count} tasks**`,
    "",
    `${name} · ${jobClass} · tenant ${tenant} · ${gang.gpus} GPUs a task · ${slots} at a time`,
    "",
    `\`${run.command.join(" ").replaceAll("`", "'").replaceAll("\n", " ⏎ ").slice(0, 300)}\``,
  ];
  if (pending !== undefined) lines.push("", `Waits: **${pending.code}**`, "", pending.message);
  if (leases.length > 0) {
    lines.push("", "| lease | where | slots | tasks |", "| --- | --- | --- | --- |");
    for (const { leaseId, gpus, slots: own, tasks, preemptedFor } of leases.slice(
      0,
      SHOWN_LEASES,
    )) {
      const where = gpus.map(({ host, mask }) => `${host} ${gpuList(mask)}`).join("<br>");
      lines.push(
        `| ${leaseId} | ${where} | ${own} | ${tasks}${preemptedFor === undefined ? "" : `, given up for ${preemptedFor}`} |`,
      );
    }
  }
  if (preemptions > 0) lines.push("", `Leases given up for other jobs: ${preemptions}`);
  if (firstFailed.length > 0)
    lines.push("", "First that failed:", "", ...firstFailed.map(failedLine));
  return lines.join("\n");
}

export const countsText = (counts: TaskCounts): string =>
  (["completed", "failed", "cancelled", "running", "waiting"] as const)
    .flatMap((state) => (counts[state] > 0 ? [`${counts[state]} ${state}`] : []))
    .join(", ");

const failedLine = ({ task, message = "", exitCode, signal }: TaskView): string =>
  `- task ${task}: ${message.split("\n")[0] ?? ""}${message === "" ? `exit ${exitCode ?? signal ?? ""}` : ""}`;
