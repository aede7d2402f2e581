/**
 * @file Starts the fleet's workflow with the given description, or updates it, and puts the measured tables in the store.
 *
 * A running fleet keeps its ledger; a new description is an update to it. One that was closed goes on from its last run, and asks agents and jobs
 * for the rest, because what runs on its hosts runs on.
 */

import {
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  type Client,
} from "@temporalio/client";
import { fleetRun } from "../../activities/fleet-run.ts";
import { reviveFleet, UnreadableFleetError } from "../../activities/revive-fleet.ts";
import { directoryStore, fleetDetails } from "../../activities/store.ts";
import { ordered } from "../../client/orders.ts";
import { rulesOfNewFleet } from "../../client/rules/new-fleet.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { SIGNED_RULES } from "../../scheduling/ledger/ledger.ts";
import { configureUpdate, FLEET_WORKFLOW, fleetWorkflowId } from "../../protocol/messages.ts";
import { storeDirOf } from "./places.ts";

/** Key of the fleet's measured tables in the store; undefined when nothing was measured. */
export async function storeDetails(fleet: Fleet, stateDir: string): Promise<string | undefined> {
  if (fleet.details.size === 0 && fleet.interHost.size === 0) return undefined;
  return await directoryStore(storeDirOf(stateDir)).put(fleetDetails(fleet));
}

export interface FleetStart {
  readonly name: string;
  readonly fleet: Fleet;
  readonly detailsHash: string | undefined;
}

/** True when this call started a new fleet, false when there was one: it runs with the description that it had. */
export async function startFleet(client: Client, start: FleetStart): Promise<boolean> {
  const { name, fleet, detailsHash } = start;
  if (await isThere(client, name)) return false;
  const rules = await rulesOfNewFleet(client);
  const ledger = { ...emptyLedger(fleet.shape, detailsHash), applyVersion: rules };
  const areWordsSigned = rules >= SIGNED_RULES;
  try {
    await client.workflow.start(FLEET_WORKFLOW, {
      ...fleetRun({ name, ledger: packLedger(ledger), ...(areWordsSigned && { areWordsSigned }) }),
      workflowIdConflictPolicy: "FAIL",
      staticSummary: `fleet ${name}`,
    });
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    throw error;
  }
}

/** Ends the run of a fleet's workflow, if there is one; `startFleet` starts the next from its input. */
export async function endRun(client: Client, name: string, why: string): Promise<void> {
  try {
    await client.workflow.getHandle(fleetWorkflowId(name)).terminate(why);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

async function isThere(client: Client, name: string): Promise<boolean> {
  try {
    return (await reviveFleet(client, fleetWorkflowId(name))) !== "never-was";
  } catch (error) {
    if (error instanceof UnreadableFleetError) return false;
    throw error;
  }
}

/** Updates the description of a running fleet; its leases are kept. */
export async function configureFleet(client: Client, start: FleetStart): Promise<void> {
  const { name, fleet, detailsHash } = start;
  const call = { client, workflowId: fleetWorkflowId(name), subject: `fleet ${name}` };
  const description = { shape: fleet.shape, ...(detailsHash !== undefined && { detailsHash }) };
  await ordered(call, configureUpdate, description);
}
