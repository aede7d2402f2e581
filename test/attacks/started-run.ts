/** @file Starts a run of the fleet's under its own id, as anybody who reaches the frontend can; one that is open already is taken. */

import type { WorkflowHandle } from "@temporalio/client";
import { JOB_TASK_QUEUE } from "../../protocol/messages.ts";
import type { World } from "../support/world.ts";

export async function startedRun(
  { temporal, fleet }: World,
  type: string,
  { workflowId, ...input }: Readonly<Record<string, unknown>> & { readonly workflowId: string },
): Promise<WorkflowHandle> {
  await temporal.workflow.start(type, {
    workflowId,
    taskQueue: JOB_TASK_QUEUE,
    args: [{ fleet, ...input }],
    workflowIdConflictPolicy: "USE_EXISTING",
    memo: { fleet },
  });
  return temporal.workflow.getHandle(workflowId);
}
