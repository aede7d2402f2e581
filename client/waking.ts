/**
 * @file Queries of workflows whose workers may be asleep: one that nobody answers at once wakes them and waits on.
 *
 * Workers on demand are started by tasks, and a query is none. So a query that stays without an answer for a moment is followed
 * by a workflow that does nothing, on the same task queue; its task brings a worker, which answers the query too. Where the
 * workers are always on, this happens only while none runs.
 */

import { isGrpcServiceError, QueryNotRegisteredError, type Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { UNTIMELY_NEWS, WAKE_WORKFLOW } from "../workflows/messages.ts";
import { askedBeside } from "./asked-beside.ts";
import { ANSWER_WITHIN_MS, asked } from "./server-error.ts";

/** A worker that runs answers within a few hundredths of a second; a busy one may take longer, and one more wake costs little. */
const WAKE_AFTER_MS = 300;
/** The wake itself ends with the worker's first task; without any worker it is forgotten soon. */
const WAKE_TIMEOUT = "60s";
const ASK_AGAIN_MS = 200;
/** A sticky worker that is gone costs up to five seconds by itself; both times leave the last question time to be answered. */
const ASK_BESIDE_MS = [2_500, 7_000] as const;
/** "no poller seen for task queue recently, worker may be down": the server does not even wait. */
const FAILED_PRECONDITION = 9;

/** As `asked`, for a query that the workers of `taskQueue` answer. */
export async function queried<T>(
  client: Client,
  subject: string,
  { taskQueue, query }: { readonly taskQueue: string; readonly query: () => Promise<T> },
): Promise<T> {
  const endAtMs = Date.now() + ANSWER_WITHIN_MS;
  // A server that cannot be woken is one whose answer, or error, comes by the query itself.
  const wakeUp = (): void => void wake(client, taskQueue).catch(() => undefined);
  const timer = setTimeout(wakeUp, WAKE_AFTER_MS);
  try {
    return await asked(client, subject, async () => {
      for (;;) {
        try {
          return await askedBeside(query, ASK_BESIDE_MS);
        } catch (error) {
          if (!mayBeAnsweredYet(error) || Date.now() > endAtMs) throw error;
          await sleep(ASK_AGAIN_MS);
        }
      }
    });
  } finally {
    clearTimeout(timer);
  }
}

/** Gives the workers of the queue something to start for. One wake at a time is enough for everybody who asks. */
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

/** No worker yet, or one that has just dropped the run and reads it again. */
const mayBeAnsweredYet = (error: unknown): boolean => hasNoPoller(error) || isUntimely(error);

const isUntimely = (error: unknown): boolean =>
  error instanceof QueryNotRegisteredError && error.message.includes(UNTIMELY_NEWS);

function hasNoPoller(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return isGrpcServiceError(cause) && Number(cause.code) === FAILED_PRECONDITION;
}
