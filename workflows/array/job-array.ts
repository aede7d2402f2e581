/**
 * @file The workflow of a job whose file describes an array: feeds signals, updates and answers to the array's state machine, and carries its
 * commands out.
 *
 * The life of an array is in `machines/array/job-array.ts`. No activity is local: several at a time end in another order on replay
 * (docs/decisions/0014).
 */

import {
  ApplicationFailure,
  CancellationScope,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertMemo,
} from "@temporalio/workflow";
import type { JobId } from "../../domain/values/ids.ts";
import type { Followers } from "../../machines/job/followers.ts";
import { unconfirmedHosts } from "../../machines/array/array-end.ts";
import type {
  ArrayCommand,
  ArrayEntry,
  ArrayEvent,
  JobArray,
} from "../../machines/array/array-state.ts";
import { arraySummary, arrayView, shownState, tasksView } from "../../machines/array/array-view.ts";
import { arrayAmendAnswer, readArrayAmendment } from "../../machines/array/array-amended.ts";
import { isStopping, requeueArrayProblem } from "../../machines/array/array-paused.ts";
import { arrayMachine, openArray } from "../../machines/array/job-array.ts";
import { cancelAnswer, retryAnswer } from "../../machines/array/named-tasks.ts";
import { refuseEnding, refuseTasks } from "../../machines/array/task-orders.ts";
import { stopFailed } from "../../machines/array/task-stops.ts";
import type { OrderRefusal } from "../../machines/job/order-refusal.ts";
import type { JobOutcome } from "../../machines/job/job-state.ts";
import type { OrderActivities } from "../../protocol/agent-contract.ts";
import type { JobActivities } from "../../protocol/control-contract.ts";
import {
  AMENDED_MEMO,
  amendUpdate,
  ARRAY_MEMO,
  assertSignal,
  callInSignal,
  cancelTasksUpdate,
  fencedSignal,
  fleetWorkflowId,
  grantsSignal,
  holdUpdate,
  jobViewQuery,
  killSignal,
  pendingSignal,
  preemptSignal,
  releaseUpdate,
  requeueUpdate,
  retryTasksUpdate,
  suspendUpdate,
  tasksQuery,
  type JobState,
  type TaskOrder,
} from "../../protocol/messages.ts";
import { gangCarrier } from "../gang/carry-out.ts";
import { onFollow, refuseFollowers, tellStart } from "../job/followers.ts";
import { mark } from "../job/search-attributes.ts";
import { drive, type Drive } from "../runtime/drive.ts";
import { onOrder } from "../runtime/orders.ts";
import { onSignal, onUnknownSignal } from "../runtime/signal-intake.ts";

const { tellFleet, leaveLobby } = proxyActivities<Pick<JobActivities, "tellFleet" | "leaveLobby">>({
  summary: "what the array asks of its fleet, or gives back",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});
/** No other job waits, as far as a batch is concerned, where the fleet does not answer. */
const { othersWait } = proxyActivities<Pick<JobActivities, "othersWait">>({
  summary: "whether other jobs wait",
  startToCloseTimeout: "5s",
  retry: { maximumAttempts: 1 },
});

export interface EndedArray {
  readonly outcome: JobOutcome;
  /** Those that it knows of by now. */
  readonly followers: () => Followers;
}

/** Runs until the array is over. `onCancel` is told how to cancel it. */
export async function runJobArray(
  entry: ArrayEntry,
  onCancel: (cancel: () => void) => void,
): Promise<EndedArray> {
  const { state, commands } = openArray(entry, Date.now());
  const life = drive<JobArray, ArrayEvent, ArrayCommand>(
    {
      machine: arrayMachine,
      state,
      carryOut: carrier(entry.jobId),
      show: (array) => setCurrentDetails(arraySummary(arrayView(array))),
    },
    commands,
  );
  onCancel(() => life.feed({ kind: "cancel" }));
  listen(life);
  acceptOrders(life);
  const { phase } = await untilOver(life);
  if (phase.kind !== "over") throw new Error(`the array is not over but ${phase.kind}`);
  return { outcome: phase.outcome, followers: () => life.state().followers };
}

function listen({ state, feed }: Drive<JobArray, ArrayEvent>): void {
  setHandler(jobViewQuery, () => arrayView(state()));
  setHandler(tasksQuery, (query) => tasksView(state().tasks, query));
  onSignal(grantsSignal, (offers) => feed({ kind: "grants", offers }));
  onSignal(fencedSignal, (loss) => feed({ kind: "fenced", loss }));
  onSignal(preemptSignal, (order) => feed({ kind: "preempt", order }));
  onSignal(callInSignal, (call) => feed({ kind: "call-in", call }));
  onSignal(assertSignal, (question) => feed({ kind: "assert", question }));
  onFollow(feed);
  onSignal(killSignal, () => feed({ kind: "kill" }));
  onSignal(pendingSignal, (note) => feed({ kind: "pending", note }));
  onUnknownSignal(() => feed({ kind: "junk" }));
}

function acceptOrders({ state, feed }: Drive<JobArray, ArrayEvent>): void {
  const junk = (): void => feed({ kind: "junk" });
  const change = (kind: "hold" | "suspend" | "requeue") => ({
    check: (): void => refuse(refuseEnding(state())),
    carryOut: (order: unknown): JobState => {
      feed({ kind, order });
      return isStopping(state()) ? "stopping" : shownState(state());
    },
  });
  onOrder(holdUpdate, change("hold"), junk);
  onOrder(
    releaseUpdate,
    {
      check: () => refuse(refuseEnding(state())),
      carryOut: () => {
        feed({ kind: "release" });
        return shownState(state());
      },
    },
    junk,
  );
  onOrder(suspendUpdate, change("suspend"), junk);
  onOrder(
    requeueUpdate,
    {
      ...change("requeue"),
      check: () => refuse(refuseEnding(state()) ?? requeueArrayProblem(state())),
    },
    junk,
  );
  const amendment = (order: unknown) => {
    const read = readArrayAmendment(state(), order, Date.now());
    if ("code" in read) throw ApplicationFailure.nonRetryable(read.message, read.code);
    return read;
  };
  onOrder(
    amendUpdate,
    {
      check: (order) => void amendment(order),
      carryOut: (order) => {
        const answer = arrayAmendAnswer(state(), amendment(order));
        feed({ kind: "amend", order });
        return answer;
      },
    },
    junk,
  );
  const named = (order: TaskOrder): void => refuse(refuseTasks(state(), order));
  onOrder(
    cancelTasksUpdate,
    {
      check: named,
      carryOut: (order) => {
        const answer = cancelAnswer(state().tasks, order);
        feed({ kind: "cancel-tasks", order });
        return answer;
      },
    },
    junk,
  );
  onOrder(
    retryTasksUpdate,
    {
      check: named,
      carryOut: (order) => {
        const answer = retryAnswer(state().tasks, order);
        feed({ kind: "retry-tasks", order });
        return answer;
      },
    },
    junk,
  );
}

function refuse(refusal: OrderRefusal | undefined): void {
  if (refusal !== undefined) throw ApplicationFailure.nonRetryable(refusal.message, refusal.code);
}

/** Commands are carried out to their end, even once the workflow is cancelled. */
function carrier(jobId: JobId): (command: ArrayCommand) => Promise<ArrayEvent | undefined> {
  const carryOut = carrierOf(jobId);
  return (command) => CancellationScope.nonCancellable(async () => carryOut(command));
}

function carrierOf(
  jobId: JobId,
): (command: ArrayCommand) => Promise<ArrayEvent | undefined> | undefined {
  const gang = gangCarrier();
  return (command) => {
    switch (command.kind) {
      case "tell": {
        const { fleetWorkflowId: at, entry, exit, id } = command;
        const told = exit === undefined ? tellFleet(at, entry) : tellFleet(at, entry, exit);
        return told.then((result) => ({ kind: "told", id, result }));
      }
      case "leave-lobby":
        return leaveLobby(command.exit).then(() => ({
          kind: "told",
          id: command.id,
          result: { kind: "delivered" },
        }));
      case "ask-others":
        return othersWait(command.fleetWorkflowId, command.jobId)
          .catch(() => false)
          .then((doWait) => ({ kind: "others-wait", id: command.id, doWait }));
      case "stop-tasks":
        return stopTasks(command).then(
          // The end of the batch says what became of the tasks.
          () => undefined,
          () => stopFailed(command),
        );
      case "gang":
        return gang(command.command)?.then((answer) => ({
          kind: "gang",
          lease: command.lease,
          answer,
        }));
      case "tell-followers":
        return tellStart(jobId, command.followers);
      case "refuse-followers":
        return refuseFollowers();
      case "mark":
        mark(command.mark);
        return undefined;
      case "memo":
        upsertMemo({ [ARRAY_MEMO]: command.memo });
        return undefined;
      case "proofs":
        upsertMemo({ [AMENDED_MEMO]: command.proofs });
        return undefined;
    }
  };
}

const stopTasks = ({
  agent,
  order,
  summary,
  startToCloseMs,
}: Extract<ArrayCommand, { readonly kind: "stop-tasks" }>): Promise<unknown> =>
  proxyActivities<Pick<OrderActivities, "stopTasks">>({
    taskQueue: agent.orderQueue,
    startToCloseTimeout: startToCloseMs,
    scheduleToStartTimeout: "30s",
    retry: { maximumAttempts: 3 },
    summary,
  }).stopTasks(order);

/** A bug of ours must not keep GPUs: they are given back, to be confirmed free by their hosts. */
async function untilOver({ state, until }: Drive<JobArray, ArrayEvent>): Promise<JobArray> {
  try {
    return await until(({ phase }) => phase.kind === "over");
  } catch (error) {
    const { fleet, jobId, runId, requests } = state();
    await tellFleet(fleetWorkflowId(fleet), {
      kind: "end",
      jobId,
      runId,
      seq: requests.seq,
      unconfirmedHosts: unconfirmedHosts(state()),
    });
    throw error;
  }
}
