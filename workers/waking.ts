/**
 * @file Wakes sleeping workers when our own processes query their workflows, as a client does (`client/waking.ts`).
 *
 * A jobs worker queries the fleet for a host's agent; an agent queries the fleet for its description.
 */

import type { Client, WorkflowClientInterceptor } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { pauseMs } from "../client/ask-again.ts";
import { hasNoPoller, wake, WAKE_AFTER_MS } from "../client/waking.ts";
import { FLEET_TASK_QUEUE, isFleetWorkflow, JOB_TASK_QUEUE } from "../protocol/messages.ts";

/** Repeats of a query that fails because no worker polls; the caller has a timeout of its own. */
const ATTEMPTS = 50;
const MOST_PAUSE_MS = 200;

/** `client` returns the client that wakes; it need not exist before the first query. */
export function wakingInterceptor(client: () => Client): WorkflowClientInterceptor {
  return {
    query: async (input, next) => {
      const taskQueue = queueOf(input.workflowExecution.workflowId ?? "");
      const timer = setTimeout(() => {
        // When the wake cannot start, the query itself fails with the same cause.
        void wake(client(), taskQueue).catch(() => undefined);
      }, WAKE_AFTER_MS);
      try {
        for (let tries = 0; ; tries += 1) {
          try {
            return await next(input);
          } catch (error) {
            if (tries + 1 === ATTEMPTS || !hasNoPoller(error)) throw error;
            await sleep(pauseMs(tries, MOST_PAUSE_MS));
          }
        }
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

/** Fleets have a task queue of their own; the jobs workers serve every other workflow that is queried. */
const queueOf = (workflowId: string): string =>
  isFleetWorkflow(workflowId) ? FLEET_TASK_QUEUE : JOB_TASK_QUEUE;
