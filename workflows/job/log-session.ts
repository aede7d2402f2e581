/**
 * @file A log session carries log reads from a client to the agent that has the log, so that `logs -f` works from a machine that shares no
 * disk with the agent, and no network but Temporal's.
 *
 * Each update is one activity on the host's order queue, once the look for the host has judged how the question was encrypted. The session ends on a signal, or when no client has read for a while.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  condition,
  continueAsNew,
  proxyActivities,
  setHandler,
} from "@temporalio/workflow";
import type { OrderActivities } from "../../protocol/agent-contract.ts";
import type { JobActivities } from "../../protocol/control-contract.ts";
import {
  endLogSessionSignal,
  fleetWorkflowId,
  readLogUpdate,
  type LogSessionInput,
} from "../../protocol/messages.ts";
import { arrivedOrder } from "../runtime/arrived-orders.ts";
import { flawedInput, onSignal } from "../runtime/signal-intake.ts";

/** A read costs about sixteen events. Counted here: the history's length may read otherwise on replay. */
const CONTINUE_AT_READS = 200;

/** No local activity: several at a time end in another order on replay (docs/decisions/0014). */
const { findHost } = proxyActivities<Pick<JobActivities, "findHost">>({
  summary: "the agent of the host",
  startToCloseTimeout: "10s",
  retry: { maximumAttempts: 3 },
});

export async function logSession(input: LogSessionInput): Promise<void> {
  let isEnded = false;
  let reads = 0;
  onSignal(endLogSessionSignal, () => {
    isEnded = true;
  });
  setHandler(
    readLogUpdate,
    async (query) => {
      reads += 1;
      const { flaw } = arrivedOrder(undefined);
      const came = flaw === undefined ? flawedInput() : { flaw };
      const agent = await findHost(fleetWorkflowId(input.fleet), query.host, came);
      if (agent === null) {
        throw ApplicationFailure.nonRetryable(
          `${query.host} has no agent now; its logs are on its disk and can be read when it is back`,
          "NOT_FOUND",
        );
      }
      const { readLogs } = proxyActivities<OrderActivities>({
        taskQueue: agent.orderQueue,
        scheduleToStartTimeout: "15s",
        startToCloseTimeout: "60s",
        retry: { maximumAttempts: 2 },
        summary: `rank ${query.rank} of ${query.jobId} from byte ${query.offset}`,
      });
      return readLogs(query);
    },
    {
      validator: (query: { readonly host?: unknown } | undefined) => {
        if (typeof query?.host !== "string")
          throw ApplicationFailure.nonRetryable("the query names no host", "BAD_INPUT");
      },
    },
  );
  for (;;) {
    const before = reads;
    const isMoving = await condition(
      () => isEnded || reads !== before || reads >= CONTINUE_AT_READS,
      input.idleMs,
    );
    if (isEnded || !isMoving || reads >= CONTINUE_AT_READS) break;
  }
  await condition(allHandlersFinished);
  if (!isEnded && reads >= CONTINUE_AT_READS) await continueAsNew<typeof logSession>(input);
}
