/**
 * @file Starts workflows that help a client and are no work of anybody: Temporal's lists leave them out unless they are asked for.
 *
 * Temporal lists a workflow of another division of its namespace only to a query that names the division, as it does for its own schedules and batches:
 * `TemporalNamespaceDivision = "orbweaver-helpers"`. A server that does not let clients say so lists them with all others.
 */

import {
  isGrpcServiceError,
  type Client,
  type WorkflowHandle,
  type WorkflowStartOptions,
} from "@temporalio/client";
import { defineSearchAttributeKey } from "@temporalio/common";

export const HELPERS_DIVISION = "orbweaver-helpers";

const DIVISION_KEY = defineSearchAttributeKey("TemporalNamespaceDivision", "KEYWORD");

export async function startHelper(
  client: Client,
  type: string,
  options: WorkflowStartOptions,
): Promise<WorkflowHandle> {
  try {
    return await client.workflow.start(type, {
      ...options,
      typedSearchAttributes: [{ key: DIVISION_KEY, value: HELPERS_DIVISION }],
    });
  } catch (error) {
    if (!refusesDivision(error)) throw error;
    return await client.workflow.start(type, options);
  }
}

function refusesDivision(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if (isGrpcServiceError(at)) return at.details.includes(DIVISION_KEY.name);
  return false;
}
