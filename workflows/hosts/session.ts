/** @file A session workflow carries the order to dial out to one agent, once, and ends with its answer. Nothing of the session itself passes here. */

import { ApplicationFailure, proxyActivities } from "@temporalio/workflow";
import type { JobActivities } from "../../protocol/control-contract.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import type { SessionActivities, SessionInput } from "../../protocol/session-contract.ts";
import { flawedInput } from "../runtime/signal-intake.ts";

const { findHost } = proxyActivities<Pick<JobActivities, "findHost">>({
  summary: "the agent of the host",
  startToCloseTimeout: "10s",
  retry: { maximumAttempts: 3 },
});

export async function session({ fleet, order }: SessionInput): Promise<void> {
  const agent = await findHost(fleetWorkflowId(fleet), order.host, flawedInput());
  if (agent === null)
    throw ApplicationFailure.nonRetryable(`${order.host} has no agent now`, "NOT_FOUND");
  const { dial } = proxyActivities<SessionActivities>({
    taskQueue: agent.orderQueue,
    scheduleToStartTimeout: "15s",
    startToCloseTimeout: "30s",
    retry: { maximumAttempts: 1 },
    summary: `a session with ${order.jobId}`,
  });
  await dial(order);
}
