/** @file How a job array ends: its result, its cancellation, or its failure with the first tasks that failed. */

import { selectedTasks } from "../../domain/job/task-ranges.ts";
import { CALLED_END_RULES } from "../../protocol/control-contract.ts";
import type { JobResult, JobState, TaskView } from "../../protocol/job.ts";
import type { JobOutcome } from "../job/job-state.ts";
import { andThen, quiet } from "../steps.ts";
import { mark, memoize } from "./array-marks.ts";
import { exitOf, tell } from "./array-requests.ts";
import type { ArrayStep, JobArray } from "./array-state.ts";
import { countsText, shownFailures } from "./array-view.ts";
import { hostsOf } from "./held-lease.ts";
import { cancelUnfinished } from "./task-orders.ts";
import { hasEnded, stateOf } from "./task-table.ts";

/** Closes an array of which no task is left, or that is to stop, once its leases are given back; then tells the fleet. */
export function advanceEnd(array: JobArray, nowMs: number): ArrayStep {
  const { phase, leases, unconfirmed, reason, requests } = array;
  const isIdle = leases.size === 0 && unconfirmed.size === 0;
  if (phase.kind === "open") {
    const isDue = isIdle && (reason !== undefined || hasEnded(array.tasks));
    return isDue ? advanceEnd({ ...array, phase: { kind: "closing" } }, nowMs) : quiet(array);
  }
  if (phase.kind === "ending") return closeTold(array, nowMs);
  const isSpeaking = requests.doing.kind === "requesting" || requests.doing.kind === "asserting";
  if (phase.kind !== "closing" || isSpeaking) return quiet(array);
  return tellEnd(reason === undefined ? array : cancelUnfinished(array));
}

/** The fleet knows that the array is over, or something else has been delivered meanwhile. */
export function endDelivered(array: JobArray, id: number, nowMs: number): ArrayStep {
  const { phase } = array;
  const isDelivered = phase.kind === "ending" && phase.id === id;
  return closeTold(isDelivered ? { ...array, phase: { ...phase, isDelivered } } : array, nowMs);
}

/** A call that came while the fleet was told goes back to the lobby first. */
function closeTold(array: JobArray, nowMs: number): ArrayStep {
  const { phase, unconfirmed, requests, rules } = array;
  if (phase.kind !== "ending" || phase.isDelivered !== true) return quiet(array);
  const isCalled = requests.call !== undefined || unconfirmed.size > 0;
  if (isCalled && rules >= CALLED_END_RULES) return quiet(array);
  const state = endState(array);
  const outcome = outcomeOf(array, state, nowMs);
  return andThen(memoize({ ...array, phase: { kind: "over", state, outcome } }), (over) =>
    mark(over, state),
  );
}

function tellEnd(array: JobArray): ArrayStep {
  const { jobId, runId } = array;
  const { id, step } = tell(
    array,
    {
      kind: "end",
      jobId,
      runId,
      seq: array.requests.seq,
      unconfirmedHosts: unconfirmedHosts(array),
    },
    exitOf(array),
  );
  return { ...step, state: { ...step.state, phase: { kind: "ending", id } } };
}

/** Hosts on which something of the array may still run. */
export const unconfirmedHosts = ({
  unconfirmedHosts: known,
  leases,
}: JobArray): JobResult["hosts"] => [
  ...known,
  ...[...leases.values()].flatMap(({ grant }) => hostsOf(grant)),
];

/** Completed when every task that was to run is; a cancellation or the deadline decides first. */
function endState({ reason, tasks, rule }: JobArray): JobState {
  if (reason === "cancelled") return "cancelled";
  const isDone =
    rule.tasks === undefined
      ? tasks.counts.completed === tasks.count
      : tasks.counts.failed === 0 &&
        selectedTasks(rule).every((task) => stateOf(tasks, task) === "completed");
  return reason === undefined && isDone ? "completed" : "failed";
}

function outcomeOf(array: JobArray, state: JobState, nowMs: number): JobOutcome {
  const { jobId, spec, tasks, hosts, submittedAtMs, firstGrantAtMs = nowMs } = array;
  const attempts = hosts.size > 0 ? 1 : 0;
  if (state === "cancelled") return { kind: "cancelled" };
  if (state === "failed") return failureOf(array, attempts);
  return {
    kind: "completed",
    result: {
      jobId,
      attempts,
      gpus: spec.gang.gpus,
      hosts: [...hosts],
      queuedMs: firstGrantAtMs - submittedAtMs,
      ranMs: nowMs - firstGrantAtMs,
      tasks: tasks.counts,
    },
  };
}

function failureOf(array: JobArray, attempts: number): JobOutcome {
  const { jobId, spec, reason, tasks } = array;
  const failed = shownFailures(array);
  const details = { attempts, tasks: tasks.counts, failedTasks: failed.map(failedTask) };
  const counts = `${countsText(tasks.counts)} of ${tasks.count} tasks`;
  if (reason === "deadline") {
    const limit = `${(spec.deadlineMs ?? 0) / 1000} s of its submission`;
    const message = `job ${jobId} did not end within ${limit}; ${counts}`;
    return { kind: "failed", code: "DEADLINE_EXCEEDED", message, details };
  }
  const [first] = failed;
  const why = first === undefined ? "" : `; task ${first.task}: ${first.message ?? "failed"}`;
  return {
    kind: "failed",
    code: "TASKS_FAILED",
    message: `${counts} of job ${jobId}${why}`,
    details: {
      ...details,
      ...(first?.exitCode !== undefined && { exitCode: first.exitCode }),
      ...(first?.signal !== undefined && { signal: first.signal }),
    },
  };
}

const failedTask = ({ task, host, exitCode, signal, message }: TaskView) => ({
  task,
  ...(host !== undefined && { host }),
  ...(exitCode !== undefined && { exitCode }),
  ...(signal !== undefined && { signal }),
  ...(message !== undefined && { message }),
});
