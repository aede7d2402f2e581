/** @file Plans drains, lists the planned ones, and calls them off. A second plan for a host takes the place of the first. */

import { WorkflowIdConflictPolicy, WorkflowNotFoundError, type Client } from "@temporalio/client";
import { z } from "zod";
import { ownIdentity } from "../access/own-identity.ts";
import { isWord, parseHostId, type HostId } from "../domain/values/ids.ts";
import { drainUpdate, fleetWorkflowId, JOB_TASK_QUEUE, USER } from "../protocol/messages.ts";
import {
  PLANNED_DRAIN_MEMO,
  TIMED_DRAIN_RULES,
  TIMED_DRAIN_WORKFLOW,
  timedDrainWorkflowId,
  type PlannedDrain,
  type TimedDrainInput,
} from "../protocol/timed-drain.ts";
import { listedRuns } from "./job-rows.ts";
import { signedWord } from "./signed-word.ts";

const planSchema = z.object({
  host: z.string().refine(isWord).transform(parseHostId),
  atMs: z.number(),
  reason: z.string(),
  by: z.string(),
});

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
  for await (const { memo } of listedRuns(client, query, ["fleet", PLANNED_DRAIN_MEMO])) {
    // Written by `planDrain`, or by anybody.
    const plan = planSchema.safeParse(memo?.[PLANNED_DRAIN_MEMO]);
    if (memo?.["fleet"] === fleet && plan.success) found.push(plan.data);
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
