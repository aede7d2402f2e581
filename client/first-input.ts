/** @file What the present run of a workflow was started with, read from its history: one call, and no worker wakes for it. */

import type { Client } from "@temporalio/client";
import type { JobId } from "../domain/values/ids.ts";
import { FLEET_WORKFLOW, fleetWorkflowId, JOB_WORKFLOW } from "../protocol/messages.ts";
import { decodedPayloads } from "./payloads.ts";
import { translated } from "./server-error.ts";

/** The arguments that a job was started with; undefined when the id belongs to a workflow of another type. */
export async function firstInput(
  client: Client,
  jobId: JobId,
): Promise<readonly unknown[] | undefined> {
  try {
    return await inputOf(client, { workflowId: jobId, type: JOB_WORKFLOW });
  } catch (error) {
    throw translated(error, `job ${jobId}`);
  }
}

/** The argument of the fleet's present run: its ledger as the run before it left it. A fleet begins a new run after each order to it. */
export const fleetInput = async (client: Client, fleet: string): Promise<unknown> =>
  (await inputOf(client, { workflowId: fleetWorkflowId(fleet), type: FLEET_WORKFLOW }))?.[0];

async function inputOf(
  client: Client,
  { workflowId, type }: { readonly workflowId: string; readonly type: string },
): Promise<readonly unknown[] | undefined> {
  const { history } = await client.workflowService.getWorkflowExecutionHistory({
    namespace: client.options.namespace,
    execution: { workflowId },
    maximumPageSize: 1,
  });
  const started = history?.events?.[0]?.workflowExecutionStartedEventAttributes;
  if (started?.workflowType?.name !== type) return undefined;
  return await decodedPayloads(client, started.input?.payloads ?? [], workflowId);
}
