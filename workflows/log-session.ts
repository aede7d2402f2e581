/**
 * @file A log session: carries log reads from a client to the agent that has the log, so that `logs -f` works from a machine
 * that shares no disk (and no network but Temporal's) with the agent.
 *
 * One update, one activity on the host's order queue. Ends when told, or when nobody has read for a while.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  condition,
  continueAsNew,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
} from "@temporalio/workflow";
import type { OrderActivities } from "../activities/agent-contract.ts";
import type { JobActivities } from "../activities/control-contract.ts";
import {
  endLogSessionSignal,
  fleetWorkflowId,
  readLogUpdate,
  type LogSessionInput,
} from "./messages.ts";

/** A read costs about sixteen events. Counted here: the history's length may read otherwise on replay. */
const CONTINUE_AT_READS = 200;

type FindHost = Pick<JobActivities, "findHost">;
const FIND_HOST = { startToCloseTimeout: "10s", retry: { maximumAttempts: 3 } } as const;
/** From these rules on no local activities: several at a time end in another order on replay (docs/decisions/0014). */
const PLAIN_RULES = 2;

export async function logSession(input: LogSessionInput): Promise<void> {
  const isPlain = (input.rules ?? 1) >= PLAIN_RULES;
  const { findHost } = isPlain
    ? proxyActivities<FindHost>(FIND_HOST)
    : proxyLocalActivities<FindHost>(FIND_HOST);
  let isEnded = false;
  let reads = 0;
  setHandler(endLogSessionSignal, () => {
    isEnded = true;
  });
  setHandler(
    readLogUpdate,
    async (query) => {
      reads += 1;
      const agent = await findHost(fleetWorkflowId(input.fleet), query.host);
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
