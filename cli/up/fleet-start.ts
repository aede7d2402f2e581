/**
 * @file Sees to it that the fleet's workflow runs under the description that was given, and puts its measured tables in the store.
 *
 * A fleet that runs already keeps its ledger; a new description is an update to it.
 */

import { WorkflowExecutionAlreadyStartedError, type Client } from "@temporalio/client";
import { directoryStore, fleetDetails } from "../../activities/store.ts";
import { asked } from "../../client/index.ts";
import type { Fleet } from "../../domain/fleet.ts";
import { emptyLedger } from "../../scheduling/apply.ts";
import { packLedger } from "../../scheduling/ledger-codec.ts";
import {
  configureUpdate,
  FLEET_RULES,
  FLEET_TASK_QUEUE,
  FLEET_WORKFLOW,
  fleetMemo,
  fleetWorkflowId,
} from "../../workflows/messages.ts";
import { storeDirOf } from "./places.ts";

/** Key of the fleet's measured tables in the store; undefined when nothing was measured. */
export async function storeDetails(fleet: Fleet, stateDir: string): Promise<string | undefined> {
  if (fleet.details.size === 0 && fleet.interHost.size === 0) return undefined;
  return await directoryStore(storeDirOf(stateDir)).put(fleetDetails(fleet));
}

/** A description that was in use within this time may still be wanted: by a fleet that is reset, or by whoever goes back to it. */
const KEPT_MS = 30 * 86_400_000;

/** After another description is in force: tables that nothing refers to any more go by age. */
export async function discardOldDetails(
  stateDir: string,
  inForce: string | undefined,
  nowMs: number,
): Promise<void> {
  const keep = inForce === undefined ? [] : [inForce];
  await directoryStore(storeDirOf(stateDir)).discard({ keep, olderThanMs: KEPT_MS, nowMs });
}

export interface FleetStart {
  readonly name: string;
  readonly fleet: Fleet;
  readonly detailsHash: string | undefined;
}

/** True when this call started it, false when it ran already. */
export async function startFleet(client: Client, start: FleetStart): Promise<boolean> {
  const { name, fleet, detailsHash } = start;
  try {
    await client.workflow.start(FLEET_WORKFLOW, {
      workflowId: fleetWorkflowId(name),
      taskQueue: FLEET_TASK_QUEUE,
      args: [
        { name, rules: FLEET_RULES, ledger: packLedger(emptyLedger(fleet.shape, detailsHash)) },
      ],
      workflowIdConflictPolicy: "FAIL",
      staticSummary: `fleet ${name}`,
      memo: fleetMemo(name),
    });
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    throw error;
  }
}

/** Gives a running fleet another description; what runs goes on. */
export async function configureFleet(client: Client, start: FleetStart): Promise<void> {
  const { name, fleet, detailsHash } = start;
  const workflow = client.workflow.getHandle(fleetWorkflowId(name));
  const description = { shape: fleet.shape, ...(detailsHash !== undefined && { detailsHash }) };
  await asked(client, `fleet ${name}`, () =>
    workflow.executeUpdate(configureUpdate, { args: [description] }),
  );
}
