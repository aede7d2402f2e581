/** @file Whether this command has the key under which its fleet was started. */

import type { Client } from "@temporalio/client";
import { decodedPayloads } from "../../client/payloads.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";

const CHECK_WITHIN_MS = 2_000;

/**
 * Throws ENCRYPTION_KEY_MISSING when the fleet was started under a key that is not here: payloads of this command would be readable by
 * everybody, or by nobody. The verb itself finds and reports any other error.
 */
export async function checkKeys(client: Client, fleet: string): Promise<void> {
  const workflowId = fleetWorkflowId(fleet);
  const { namespace } = client.options;
  try {
    // Below the client's methods: those put another value in the place of what cannot be read (`workers/readable-memos.ts`).
    const { workflowExecutionInfo } = await client.withDeadline(Date.now() + CHECK_WITHIN_MS, () =>
      client.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } }),
    );
    const memo = Object.values(workflowExecutionInfo?.memo?.fields ?? {});
    await decodedPayloads(client, memo, workflowId);
  } catch (error) {
    if (error instanceof OrbweaverError && error.code === "ENCRYPTION_KEY_MISSING") throw error;
  }
}
