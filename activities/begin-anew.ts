/**
 * @file Ends a fleet's run and begins the next one with the ledger as it stands, where the server would refuse the run's own end.
 *
 * While words pour in, each end that comes in the answer to a workflow task is refused, and each refused one costs the worker its copy of the run. A run that has grown to
 * several MiB by that asks for this instead, in a local activity, whose argument is in no history. Words that came meanwhile are lost, so the next run asks jobs and agents for
 * theirs. It ends the run that asks and no other: a worker that stood still for long ends nothing, and a fleet that an operator has ended stays so.
 */

import { ApplicationFailure, activityInfo, log } from "@temporalio/activity";
import {
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  type Client,
} from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { FLEET_WORKFLOW, fleetWorkflowId, type FleetInput } from "../protocol/messages.ts";
import { fleetRun } from "./fleet-run.ts";

/** Why its last run has ended, for people. */
export const BEGUN_ANEW =
  "more was said to this run than a run may hold; the next one goes on from its ledger";
/** The server may refuse a run that follows another within a second. */
const TRIES = 8;
const PAUSE_MS = 250;

export async function beginAnew(client: Client, input: FleetInput): Promise<void> {
  const { isLocal, workflowExecution: run } = activityInfo();
  // A workflow of anybody can ask for an activity, and not for a local one.
  if (!isLocal || run?.workflowId !== fleetWorkflowId(input.name))
    throw ApplicationFailure.nonRetryable("only a fleet begins itself anew", "NOT_ALLOWED");
  if (!(await isEnded(client, run))) return;
  for (let tries = 1; ; tries += 1) {
    try {
      await client.workflow.start(FLEET_WORKFLOW, {
        ...fleetRun(input),
        workflowIdConflictPolicy: "FAIL",
        workflowIdReusePolicy: "ALLOW_DUPLICATE",
        staticSummary: `fleet ${input.name}, begun anew in a flood of words`,
      });
      return;
    } catch (error) {
      // Somebody who spoke has found no fleet in between.
      if (error instanceof WorkflowExecutionAlreadyStartedError) return;
      if (tries >= TRIES) throw error;
      log.warn("a fleet's next run could not be begun yet", { error: String(error) });
      await sleep(PAUSE_MS);
    }
  }
}

/** Whether this has ended the run. */
async function isEnded(
  client: Client,
  { workflowId, runId }: { readonly workflowId: string; readonly runId: string },
): Promise<boolean> {
  try {
    await client.workflow.getHandle(workflowId, runId).terminate(BEGUN_ANEW);
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
