/** @file Plans drains, lists the planned ones, and calls them off. A second plan for a host takes the place of the first. */

import { WorkflowIdConflictPolicy, WorkflowNotFoundError, type Client } from "@temporalio/client";
import { ownIdentity } from "../access/own-identity.ts";
import type { HostId } from "../domain/values/ids.ts";
import { drainUpdate, fleetWorkflowId, JOB_TASK_QUEUE, USER } from "../protocol/messages.ts";
import {
  PLANNED_DRAIN_MEMO,
  TIMED_DRAIN_RULES,
  TIMED_DRAIN_WORKFLOW,
  timedDrainWorkflowId,
  type PlannedDrain,
  type TimedDrainInput,
} from "../protocol/timed-drain.ts";
import { signedWord } from "./signed-word.ts";

export async function planDrain(
  client: Client,
  fleet: string,
  { plan, nowMs }: { readonly plan: PlannedDrain; readonly nowMs: number },
): Promise<void> {
  const { host, atMs, reason } = plan;
  const workflowId = fleetWorkflowId(fleet);
  const order = { hosts: [host], reason };
  const word = { workflowId, signal: drainUpdate.name, value: order };
  const input: TimedDrainInput = {
    rules: TIMED_DRAIN_RULES,
    fleetWorkflowId: workflowId,
    ...{ host, reason },
    proof: signedWord(word, { role: USER, pair: ownIdentity() }, atMs),
  };
  await client.workflow.start(TIMED_DRAIN_WORKFLOW, {
    workflowId: timedDrainWorkflowId(fleet, host),
    workflowIdConflictPolicy: WorkflowIdConflictPolicy.TERMINATE_EXISTING,
    taskQueue: JOB_TASK_QUEUE,
    startDelay: Math.max(1, atMs - nowMs),
    args: [input],
    memo: { fleet, [PLANNED_DRAIN_MEMO]: plan },
    staticSummary: `drains ${host} at ${new Date(atMs).toISOString()}`,
  });
}

/** Those that have not begun, by time and host. The server's list may be some seconds behind. */
export async function plannedDrains(
  client: Client,
  fleet: string,
): Promise<readonly PlannedDrain[]> {
  const found: PlannedDrain[] = [];
  const query = `WorkflowType = "${TIMED_DRAIN_WORKFLOW}" AND ExecutionStatus = "Running"`;
  for await (const { memo } of client.workflow.list({ query })) {
    // Written by `planDrain`.
    const plan = memo?.[PLANNED_DRAIN_MEMO] as PlannedDrain | undefined;
    if (memo?.["fleet"] === fleet && plan !== undefined) found.push(plan);
  }
  return found.sort((one, other) => one.atMs - other.atMs || (one.host < other.host ? -1 : 1));
}

/** Nothing happens to a host for which none is planned. */
export async function callOffDrain(client: Client, fleet: string, host: HostId): Promise<void> {
  try {
    await client.workflow.getHandle(timedDrainWorkflowId(fleet, host)).terminate("undrain");
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}
