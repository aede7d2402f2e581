/** @file What a job array shows of itself: a few lines of Markdown in Temporal's own UI, and how it ends. */

import type { JobSpec } from "../domain/job.ts";
import type { JobId, RunId } from "../domain/ids.ts";
import type { StopWish } from "./gang-run.ts";
import { gpuList } from "./job-summary.ts";
import { failure } from "./job-view.ts";
import type { JobResult, JobState, JobView, TaskCounts, TaskView } from "./messages.ts";

/** The job that is an array, as far as it has got when its tasks begin. */
export interface ArrayJob {
  /** The version of the job's logic, see `JOB_RULES`. */
  readonly rules: number;
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly fleet: string;
  readonly fleetId: string;
  readonly spec: JobSpec;
  readonly submittedAtMs: number;
  readonly isHeld: boolean;
  /** The fleet wanted to hear again what there is before the array could listen. */
  readonly isAsked: boolean;
  readonly wish: StopWish;
  /** Shows a state in the search attributes. */
  readonly mark: (state: JobState, clusters: readonly string[]) => void;
  readonly cancellation: () => unknown;
}

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
    for (const { leaseId, gpus, slots: own, tasks, preemptedFor } of leases.slice(0, 20)) {
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

export interface ArrayEnd {
  readonly counts: TaskCounts;
  readonly failed: readonly TaskView[];
  readonly hosts: JobResult["hosts"];
  readonly queuedMs: number;
  readonly ranMs: number;
}

/** `completed` when every task is; the wish that ended the array comes first. */
export function arrayState({ wish }: ArrayJob, { counts }: ArrayEnd, count: number): JobState {
  if (wish.reason === "cancelled") return "cancelled";
  return wish.reason === undefined && counts.completed === count ? "completed" : "failed";
}

/** The result, or the failure or cancellation that ends the workflow. */
export function arrayResult(of: ArrayJob, end: ArrayEnd, count: number): JobResult {
  const { jobId, spec, wish } = of;
  const { counts, failed, hosts, queuedMs, ranMs } = end;
  const attempts = hosts.length > 0 ? 1 : 0;
  switch (arrayState(of, end, count)) {
    case "completed":
      return { jobId, attempts, gpus: spec.gang.gpus, hosts, queuedMs, ranMs, tasks: counts };
    case "cancelled":
      throw of.cancellation();
    default:
  }
  const details = {
    attempts,
    tasks: counts,
    failedTasks: failed.map(({ task, host, exitCode, signal, message }) => ({
      task,
      ...(host !== undefined && { host }),
      ...(exitCode !== undefined && { exitCode }),
      ...(signal !== undefined && { signal }),
      ...(message !== undefined && { message }),
    })),
  };
  if (wish.reason === "deadline") {
    const message = `job ${jobId} did not end within ${(spec.deadlineMs ?? 0) / 1000} s of its submission; ${countsText(counts)} of ${count} tasks`;
    throw failure("DEADLINE_EXCEEDED", message, details);
  }
  const [first] = failed;
  const why = first === undefined ? "" : `; task ${first.task}: ${first.message ?? "failed"}`;
  const [exitCode, signal] = [first?.exitCode, first?.signal];
  throw failure("TASKS_FAILED", `${countsText(counts)} of ${count} tasks of job ${jobId}${why}`, {
    ...details,
    ...(exitCode !== undefined && { exitCode }),
    ...(signal !== undefined && { signal }),
  });
}
