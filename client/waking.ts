/**
 * @file Queries to workflows whose workers may be asleep: a query that is not answered at once wakes the workers and waits on.
 *
 * Workers on demand are started by tasks, and a query is not a task. So a query that stays without an answer for a moment is followed
 * by an empty workflow on the same task queue; its task starts a worker, which answers the query too. A worker that was about to end may
 * take that task with it, so there is another one while nobody answers. Where workers always run, this happens only while none of them runs.
 */

import { isGrpcServiceError, QueryNotRegisteredError, type Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { OWN_PRIORITY } from "../protocol/fair-tasks.ts";
import { UNTIMELY_NEWS, WAKE_WORKFLOW } from "../protocol/messages.ts";
import { pauseMs } from "./ask-again.ts";
import { startHelper } from "./helper-workflow.ts";
import { hedgedQuery } from "./hedged-query.ts";
import { ANSWER_WITHIN_MS, asked } from "./server-error.ts";

/** A running worker answers within a few hundredths of a second; a busy one may take longer, and one more wake costs little. */
export const WAKE_AFTER_MS = 300;
/** An open wake is kept, so that none is added while no worker has come. */
export const WAKE_AGAIN_MS = 3_000;
/** The wake itself ends with the worker's first task; without any worker it is forgotten soon. */
const WAKE_TIMEOUT = "60s";
/** A sticky worker that is gone costs up to five seconds; both times leave the last query time to be answered. */
const ASK_BESIDE_MS = [2_500, 7_000] as const;
const FAILED_PRECONDITION = 9;

/** As `asked`, for a query that the workers of `taskQueue` answer. */
export async function queried<T>(
  client: Client,
  subject: string,
  {
    taskQueue,
    query,
    withinMs = ANSWER_WITHIN_MS,
  }: {
    readonly taskQueue: string;
    readonly query: () => Promise<T>;
    readonly withinMs?: number;
  },
): Promise<T> {
  const endAtMs = Date.now() + withinMs;
  // When the wake cannot start, the query itself fails with the same cause.
  const wakeUp = (): void => void wake(client, taskQueue).catch(() => undefined);
  let timer = setTimeout(function again() {
    wakeUp();
    timer = setTimeout(again, WAKE_AGAIN_MS);
  }, WAKE_AFTER_MS);
  try {
    const untilAnswered = async (): Promise<T> => {
      for (let tries = 0; ; tries += 1) {
        try {
          return await hedgedQuery(query, ASK_BESIDE_MS);
        } catch (error) {
          if (!mayBeAnsweredYet(error) || Date.now() > endAtMs) throw error;
          await sleep(pauseMs(tries));
        }
      }
    };
    return await asked(client, subject, untilAnswered, { withinMs });
  } finally {
    clearTimeout(timer);
  }
}

/** Starts an empty workflow, so that a worker of the queue starts. One wake at a time is enough for all queries. */
export async function wake(client: Client, taskQueue: string): Promise<void> {
  await startHelper(client, WAKE_WORKFLOW, {
    workflowId: `orbweaver-wake-${taskQueue}`,
    taskQueue,
    priority: OWN_PRIORITY,
    args: [],
    workflowIdConflictPolicy: "USE_EXISTING",
    workflowExecutionTimeout: WAKE_TIMEOUT,
    staticSummary: "wakes a worker that is to answer a query",
  });
}

/** No worker polls yet, or one has just dropped the run and replays it. */
export const mayBeAnsweredYet = (error: unknown): boolean =>
  hasNoPoller(error) || isUntimely(error);

const isUntimely = (error: unknown): boolean =>
  error instanceof QueryNotRegisteredError && error.message.includes(UNTIMELY_NEWS);

/** "no poller seen for task queue recently, worker may be down": the server does not even wait. */
export function hasNoPoller(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return isGrpcServiceError(cause) && Number(cause.code) === FAILED_PRECONDITION;
}
