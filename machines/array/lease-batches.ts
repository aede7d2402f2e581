/**
 * @file The batches of a lease: which tasks it runs next, and what follows from the end of a batch.
 *
 * Tasks that failed pause as the retry rule says; tasks that hosts refused or lost pause longer each time in a row.
 * Cost: O(leases + tasks of the batch).
 */

import {
  BULK_RULES,
  DOUBTED_LEASE_RULES,
  FAULTED_TASK_RULES,
} from "../../protocol/control-contract.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import type { GangInput } from "../gang/gang-commands.ts";
import type { GangEnd } from "../gang/gang-end.ts";
import { openGang } from "../gang/gang.ts";
import type { Gang } from "../gang/gang-state.ts";
import { gaveWay } from "../gang/preemption.ts";
import { isHostsRefusal } from "../gang/retry-verdict.ts";
import { quiet } from "../steps.ts";
import {
  changeRequests,
  enterWork,
  liveSlots,
  ofGang,
  type ArrayStep,
  type JobArray,
} from "./array-state.ts";
import { settleBatch } from "./batch-settlement.ts";
import { batchSize } from "./batch-size.ts";
import { placeOf, type HeldLease } from "./held-lease.ts";
import { changeTasks, MAX_TEXTS, takeTasks } from "./task-changes.ts";
import { pause, resume } from "./task-pauses.ts";

/** After the first batch of which hosts lost tasks, and the longest. */
const LOST_PAUSE_MS = 1_000;
const LOST_PAUSE_MAX_MS = 60_000;

/** Starts the next batch on a lease; without tasks for it the lease is over. */
export function begin(array: JobArray, held: HeldLease, nowMs: number): ArrayStep {
  const size = sizeOf(array, held);
  const { tasks, answer: batch } = changeTasks(array.tasks, (changes) =>
    takeTasks(changes, size, placeOf(held)),
  );
  if (batch.length === 0) return quiet(enterWork(array, held, { kind: "over" }));
  const started = { ...held, batchSeq: held.batchSeq + 1 };
  const { state: gang, commands } = openGang(gangInput(array, started, batch), nowMs);
  const begun = { ...array, tasks, batches: array.batches + 1 };
  return {
    state: enterWork(begun, started, { kind: "running", gang, tasks: batch }),
    commands: ofGang(held, commands),
  };
}

/** A task that spans hosts is alone in its batch. */
function sizeOf(array: JobArray, { grant: { lease }, slots }: HeldLease): number {
  const { tasks, ran, batches, rules, rule } = array;
  if (lease.gpus.length > 1) return Math.min(1, tasks.available);
  return batchSize({
    slots,
    allSlots: liveSlots(array),
    waiting: tasks.available,
    ...(ran.tasks > 0 && { meanTaskMs: ran.ms / ran.tasks }),
    batches,
    ...(rules >= BULK_RULES && { bulk: { inHand: tasks.counts.running, count: rule.count } }),
  });
}

/** Room for messages is divided by slots; a single task has its own. */
function mostTextsOf(array: JobArray, { slots }: HeldLease, batch: readonly number[]): number {
  const room = MAX_TEXTS - array.tasks.textCount;
  return Math.min(batch.length, Math.ceil((room * slots) / Math.max(slots, liveSlots(array))));
}

function gangInput(array: JobArray, held: HeldLease, tasks: readonly number[]): GangInput {
  const { jobId, runId, fleet, rule, rules } = array;
  const { grant, batchSeq, slots, spec } = held;
  return {
    jobId,
    workflowRunId: runId,
    fleetWorkflowId: fleetWorkflowId(fleet),
    spec,
    grant,
    attempt: 1,
    ...(rules >= DOUBTED_LEASE_RULES && { isLeaseAsked: true }),
    taskBatch: {
      seq: batchSeq,
      tasks,
      slots: Math.min(slots, tasks.length),
      gpusPerTask: spec.gang.gpus,
      count: rule.count,
      // A batch over several hosts is one task, of which the worst end counts.
      ...(rules >= BULK_RULES &&
        tasks.length > 1 && { mostTexts: mostTextsOf(array, held, tasks) }),
    },
  };
}

interface EndedBatch {
  readonly gang: Gang;
  readonly tasks: readonly number[];
  readonly end: GangEnd;
  readonly nowMs: number;
}

/** Its batch has one task, where the lease is of several hosts. */
const lossOf = (
  { rules }: JobArray,
  { grant }: HeldLease,
  { cause }: GangEnd,
): { readonly lostAtMs?: number } =>
  rules >= FAULTED_TASK_RULES && grant.lease.gpus.length > 1 && cause?.code === "HOST_LOST"
    ? { lostAtMs: cause.atMs }
    : {};

/** The batch is over: its tasks are settled, and the lease is ready for the next one unless it is to be given back. */
export function settle(before: JobArray, former: HeldLease, ended: EndedBatch): JobArray {
  const { gang, tasks: batch, end, nowMs } = ended;
  const isPreempted = former.preempt !== undefined && gaveWay(end);
  const { spec, unwanted, reason } = before;
  const isOrdered = former.givenUp !== undefined && gaveWay(end);
  const isGivenUp = reason !== undefined || isPreempted || isOrdered;
  const settled = settleBatch(before.tasks, batch, {
    end,
    unwanted,
    attempts: spec.retry.attempts,
    isGivenUp,
    ...lossOf(before, former, end),
  });
  const { tasks, failed, lost, ran } = settled;
  const lostInARow = lost.length > 0 ? before.lostInARow + 1 : 0;
  const lostPauseMs = Math.min(LOST_PAUSE_MS * 2 ** (lostInARow - 1), LOST_PAUSE_MAX_MS);
  const noted: JobArray = {
    ...avoidRefusing(before, end),
    tasks,
    lostInARow,
    ran: { tasks: before.ran.tasks + ran.tasks, ms: before.ran.ms + ran.ms },
    unwanted: without(unwanted, batch),
  };
  const retried = pause(noted, failed, nowMs + spec.retry.backoffMs);
  const array = resume(pause(retried, lost, nowMs + lostPauseMs), nowMs);
  const held: HeldLease = {
    ...former,
    grant: { ...former.grant, agents: currentAgents(former, gang) },
    unconfirmedHosts: end.unconfirmedHosts,
  };
  // A lease that was stopped, or of which a host refused or was lost, is no good for another batch.
  const isGood = end.end === "completed" && array.tasks.available > 0;
  return enterWork(array, held, isGood ? { kind: "ready" } : { kind: "over" });
}

function avoidRefusing(array: JobArray, { cause }: GangEnd): JobArray {
  if (cause === undefined || !isHostsRefusal(cause.code)) return array;
  const avoidHosts = new Set([...array.requests.avoidHosts, cause.host]);
  return changeRequests(array, { avoidHosts: [...avoidHosts], isOutdated: true });
}

function without(unwanted: ReadonlySet<number>, batch: readonly number[]): ReadonlySet<number> {
  if (unwanted.size === 0) return unwanted;
  const rest = new Set(unwanted);
  for (const task of batch) rest.delete(task);
  return rest;
}

const currentAgents = ({ grant }: HeldLease, { agents }: Gang): HeldLease["grant"]["agents"] =>
  grant.agents.map((known) => ({ ...known, agent: agents.get(known.host) ?? known.agent }));
