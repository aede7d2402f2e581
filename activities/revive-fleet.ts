/**
 * @file Restarts a fleet whose workflow was closed (most likely terminated by hand), from the input of its last run.
 *
 * A fleet continues as new after changes by an operator, so that input has the newest description and drains, but for what came within two seconds before the end. Its
 * requests, leases and agents are out of date, so the new run collects them from agents and jobs (`isRecovering`). Its tokens
 * start far above every token that the closed run can have granted. When several callers find the fleet closed, one starts it
 * and the others find it running.
 */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { fleetShapeProblem } from "../domain/fleet/fleet-shape.ts";
import { packLedger, unpackLedger } from "../scheduling/ledger/codec.ts";
import { ledgerAfterLoss, RECOVER_AFTER_MS } from "../scheduling/ledger/lost-ledger.ts";
import { FLEET_WORKFLOW, type FleetInput } from "../protocol/messages.ts";
import { fleetRun } from "./fleet-run.ts";
import { startedWith } from "./started-with.ts";

export type Revival = "revived" | "running" | "never-was";

/** A closed fleet left nothing from which it could go on. */
export class UnreadableFleetError extends Error {
  override readonly name = "UnreadableFleetError";
}

/** Fails when the server does not answer, or with `UnreadableFleetError` when the last run's input cannot be read. */
export async function reviveFleet(client: Client, fleetWorkflowId: string): Promise<Revival> {
  let last;
  try {
    last = await client.workflow.getHandle(fleetWorkflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return "never-was";
    throw error;
  }
  if (last.status.name === "RUNNING") return "running";
  const input = await inputOf(client, fleetWorkflowId, last.runId);
  await client.workflow.start(FLEET_WORKFLOW, {
    ...fleetRun({
      name: input.name,
      ...(input.areWordsSigned === true && { areWordsSigned: true }),
      ...(input.orderNumbers && { orderNumbers: input.orderNumbers }),
      isRecovering: true,
      recoverAtMs: RECOVER_AFTER_MS.map((afterMs) => Date.now() + afterMs),
      ledger: packLedger(ledgerAfterLoss(unpackLedger(input.ledger))),
    }),
    workflowIdConflictPolicy: "USE_EXISTING",
    workflowIdReusePolicy: "ALLOW_DUPLICATE",
    staticSummary: `fleet ${input.name}, started again after its end`,
  });
  return "revived";
}

async function inputOf(client: Client, workflowId: string, runId: string): Promise<FleetInput> {
  const input = await startedWith(client, { workflowId, runId });
  if (!isFleetInput(input)) {
    throw new UnreadableFleetError(
      `the last run of ${workflowId} (${runId}) has no input that a fleet can be started from; start it with \`orbweaver up FLEET.yaml\``,
    );
  }
  return input;
}

const isFleetInput = (value: unknown): value is FleetInput =>
  typeof value === "object" &&
  value !== null &&
  "name" in value &&
  typeof value.name === "string" &&
  "ledger" in value &&
  typeof value.ledger === "object" &&
  value.ledger !== null &&
  "shape" in value.ledger &&
  fleetShapeProblem(value.ledger.shape) === undefined;
