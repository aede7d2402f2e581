/** @file Asks a fleet's workflow for its ledger, as it is packed. */

import type { Client } from "@temporalio/client";
import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import { FLEET_TASK_QUEUE, fleetWorkflowId, ledgerQuery } from "../protocol/messages.ts";
import { queried } from "./waking.ts";

/** `withinMs`: after that it is NO_CONNECTION; absent: as long as other questions may take. Throws NOT_FOUND, too. */
export async function presentLedger(
  client: Client,
  fleet: string,
  withinMs?: number,
): Promise<PackedLedger> {
  const workflow = client.workflow.getHandle(fleetWorkflowId(fleet));
  return await queried(client, `fleet ${fleet}`, {
    taskQueue: FLEET_TASK_QUEUE,
    query: () => workflow.query(ledgerQuery),
    ...(withinMs !== undefined && { withinMs }),
  });
}
