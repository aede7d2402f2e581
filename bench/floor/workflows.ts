/**
 * @file The floor: the cost of the same steps on the same server without scheduling.
 *
 * A `floorJob` signals an entity, is signalled back, runs one activity that starts a process, and ends: the way of a job without
 * ledger, admission, leases and two-phase start; its process has the product's supervisor, output files and container. A `floorCaller` only does
 * the round trip, again and again. These files are frozen (`test/bench/floor.test.ts`): a floor with shortcuts of ours stands beside this one.
 */

import {
  allHandlersFinished,
  condition,
  continueAsNew,
  defineSignal,
  defineUpdate,
  getExternalWorkflowHandle,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { FloorActivities } from "./activities.ts";

/** How workflows signal each other: by the server, as a command of theirs, or by a local activity with a client. */
export type FloorWay = "by server" | "by client";

const askSignal = defineSignal<[string]>("ask");
const answerSignal = defineSignal("answer");
export const roundTripUpdate = defineUpdate<void>("roundTrip");

const CONTINUE_AT_EVENTS = 1_500;

const { tell } = proxyLocalActivities<FloorActivities>({ startToCloseTimeout: "60s" });

/** Answers every caller; those that came meanwhile are answered together. */
export async function floorEntity(way: FloorWay): Promise<never> {
  const asked: string[] = [];
  setHandler(askSignal, (workflowId) => void asked.push(workflowId));
  for (;;) {
    await condition(() => asked.length > 0);
    const batch = asked.splice(0);
    if (way === "by client") await tell(batch, "answer", []);
    else {
      await Promise.all(
        batch.map((workflowId) => getExternalWorkflowHandle(workflowId).signal(answerSignal)),
      );
    }
    if (workflowInfo().historyLength > CONTINUE_AT_EVENTS && asked.length === 0) {
      await condition(allHandlersFinished);
      await continueAsNew<typeof floorEntity>(way);
    }
  }
}

export async function floorJob(entityId: string, hostQueue: string, way: FloorWay): Promise<void> {
  let isAnswered = false;
  setHandler(answerSignal, () => {
    isAnswered = true;
  });
  const { workflowId } = workflowInfo();
  if (way === "by client") await tell([entityId], "ask", [workflowId]);
  else void getExternalWorkflowHandle(entityId).signal(askSignal, workflowId);
  await condition(() => isAnswered);
  const { startProcess } = proxyActivities<FloorActivities>({
    taskQueue: hostQueue,
    startToCloseTimeout: "60s",
  });
  await startProcess(["true"]);
}

/** Does a round trip whenever it is asked to, one after the other; the times are those of its history's events. */
export async function floorCaller(entityId: string): Promise<void> {
  let asked = 0;
  let answered = 0;
  setHandler(answerSignal, () => {
    answered += 1;
  });
  setHandler(roundTripUpdate, async () => {
    asked += 1;
    void getExternalWorkflowHandle(entityId).signal(askSignal, workflowInfo().workflowId);
    await condition(() => answered >= asked);
  });
  await condition(() => false);
}
