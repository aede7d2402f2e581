/**
 * @file Orders to hosts to stop tasks of the batch that they run, and their repetition where a host did not carry one out.
 *
 * The end of the batch says what became of the tasks. An agent that ended took its order queue with it, and the next one has another; so an order that failed is
 * given again after a pause that doubles from two seconds to five minutes, to where the gang knows the agent then. After twenty orders, more than an hour, people
 * have to order again: each costs some events of a history that cannot be continued. Cost: O(tasks of the batch) an order.
 */

import { formatTaskRanges } from "../../domain/job/task-ranges.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { REPEATED_STOP_RULES } from "../../protocol/control-contract.ts";
import type { ArrayCommand, ArrayEvent, ArrayStep, FailedStop, JobArray } from "./array-state.ts";
import { batchOf, hostsOf, type HeldLease } from "./held-lease.ts";
import { forEach, quiet } from "../steps.ts";

/** Added to the graces: how long a host may take to carry out a stop order. */
const STOP_SLACK_MS = 60_000;
const PAUSE_MS = 2_000;
const PAUSE_MAX_MS = 300_000;
export const MAX_STOP_ORDERS = 20;

/** Orders the hosts of all leases to stop those of `tasks` that are in their present batches. */
export function stopTasks(array: JobArray, tasks: ReadonlySet<number>, nowMs: number): ArrayStep {
  const isNamed = (task: number): boolean => tasks.has(task);
  const all = [...array.leases.values()].flatMap((held) =>
    hostsOf(held.grant).map((host) => ({ held, host, attempt: 1, isNamed })),
  );
  return forEach(array, all, (before: JobArray, stop): ArrayStep => orderStop(before, stop, nowMs));
}

/** For a shell to feed when its host did not carry the order out. */
export function stopFailed({
  order: { leaseId, host, batchSeq },
  attempt,
}: Extract<ArrayCommand, { readonly kind: "stop-tasks" }>): ArrayEvent {
  return { kind: "stop-failed", stop: { leaseId, host, batchSeq, attempt } };
}

/** An order that its host did not carry out, or did not get. */
export function noteFailedStop(array: JobArray, stop: FailedStop, nowMs: number): JobArray {
  const { leaseId, host, batchSeq, attempt } = stop;
  const held = array.leases.get(leaseId);
  const isOver = held?.work.kind !== "running" || held.batchSeq !== batchSeq;
  if (array.rules < REPEATED_STOP_RULES || isOver || attempt >= MAX_STOP_ORDERS) return array;
  const untilMs = nowMs + Math.min(PAUSE_MS * 2 ** (attempt - 1), PAUSE_MAX_MS);
  const others = array.stopsAgain.filter((each) => each.leaseId !== leaseId || each.host !== host);
  const again = { leaseId, host, batchSeq, attempt: attempt + 1, untilMs };
  return { ...array, stopsAgain: [...others, again] };
}

/** Gives the orders again whose pause is over, for the tasks of the batch that are still to end. */
export function stopAgain(before: JobArray, nowMs: number): ArrayStep {
  const due = before.stopsAgain.filter(({ untilMs }) => untilMs <= nowMs);
  if (due.length === 0) return quiet(before);
  const waiting = before.stopsAgain.filter(({ untilMs }) => untilMs > nowMs);
  return forEach({ ...before, stopsAgain: waiting }, due, (array: JobArray, stop): ArrayStep => {
    const held = array.leases.get(stop.leaseId);
    // The whole batch is being stopped, or is over.
    if (array.reason !== undefined || held?.batchSeq !== stop.batchSeq) return quiet(array);
    const isNamed = (task: number): boolean => array.unwanted.has(task);
    return orderStop(array, { ...stop, held, isNamed }, nowMs);
  });
}

interface StopOf {
  readonly held: HeldLease;
  readonly host: HostId;
  readonly attempt: number;
  readonly isNamed: (task: number) => boolean;
}

function orderStop(
  array: JobArray,
  { held, host, attempt, isNamed }: StopOf,
  nowMs: number,
): ArrayStep {
  const { grant, batchSeq, work } = held;
  const tasks = batchOf(held).filter(isNamed);
  if (work.kind !== "running" || tasks.length === 0) return quiet(array);
  const { id: leaseId, token } = grant.lease;
  const agent = work.gang.agents.get(host);
  if (agent === undefined)
    return quiet(noteFailedStop(array, { leaseId, host, batchSeq, attempt }, nowMs));
  const { jobId, spec } = array;
  const command: ArrayCommand = {
    kind: "stop-tasks",
    agent,
    order: {
      ...{ jobId, host, leaseId, token, batchSeq, tasks, reason: "cancelled" },
      ...(grant.ticket !== undefined && { ticket: grant.ticket }),
    },
    attempt,
    summary: `stop tasks ${formatTaskRanges(tasks).slice(0, 60)} of ${leaseId} on ${host}`,
    startToCloseMs: 2 * spec.run.graceMs + STOP_SLACK_MS,
  };
  return { state: array, commands: [command] };
}
