/**
 * @file Queries that our own processes put to workflows whose workers may be asleep wake them, as a client's do (`client/waking.ts`):
 * a jobs worker asks the fleet for a host's agent, an agent asks for the fleet's description.
 */

import {
  isGrpcServiceError,
  type Client,
  type WorkflowClientInterceptor,
} from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import {
  FLEET_TASK_QUEUE,
  fleetWorkflowId,
  JOB_TASK_QUEUE,
  WAKE_WORKFLOW,
} from "../workflows/messages.ts";

/** A worker that runs has answered by then. */
const WAKE_AFTER_MS = 300;
const WAKE_TIMEOUT = "60s";
const ASK_AGAIN_MS = 200;
/** Of a query that is refused because nobody polls; whoever asks has a timeout of its own. */
const ASKS = 50;
const FAILED_PRECONDITION = 9;

/** Wakes by `client()`, which need not exist before the first query. */
export function wakingInterceptor(client: () => Client): WorkflowClientInterceptor {
  return {
    query: async (input, next) => {
      const taskQueue = queueOf(input.workflowExecution.workflowId ?? "");
      const timer = setTimeout(() => {
        // What keeps the wake from starting is what the query itself fails of.
        void wake(client(), taskQueue).catch(() => undefined);
      }, WAKE_AFTER_MS);
      try {
        for (let ask = 1; ; ask += 1) {
          try {
            return await next(input);
          } catch (error) {
            if (ask === ASKS || !hasNoPoller(error)) throw error;
            await sleep(ASK_AGAIN_MS);
          }
        }
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

/** Fleets have a queue of their own; everything else that we query is of the jobs' workers. */
const queueOf = (workflowId: string): string =>
  workflowId.startsWith(fleetWorkflowId("")) ? FLEET_TASK_QUEUE : JOB_TASK_QUEUE;

async function wake(client: Client, taskQueue: string): Promise<void> {
  await client.workflow.start(WAKE_WORKFLOW, {
    workflowId: `orbweaver-wake-${taskQueue}`,
    taskQueue,
    args: [],
    workflowIdConflictPolicy: "USE_EXISTING",
    workflowExecutionTimeout: WAKE_TIMEOUT,
    staticSummary: "wakes a worker that is to answer a query",
  });
}

function hasNoPoller(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return isGrpcServiceError(cause) && Number(cause.code) === FAILED_PRECONDITION;
}
