/** @file The order of a planned drain, given to the fleet at its time, and what became of it. */

import { ApplicationFailure, WorkflowUpdateFailedError, type Client } from "@temporalio/client";
import { Context } from "@temporalio/activity";
import { setTimeout as sleep } from "node:timers/promises";
import { drainUpdate, orderQuery } from "../protocol/messages.ts";
import type { TimedDrainInput } from "../protocol/timed-drain.ts";

const LOOKS = 50;
const LOOK_EVERY_MS = 200;

/** Throws for good where the fleet refuses, and for another try where it has not answered within ten seconds. */
export async function drainHost(
  client: Client,
  { fleetWorkflowId, host, reason, proof }: TimedDrainInput,
): Promise<void> {
  const fleet = client.workflow.getHandle(fleetWorkflowId);
  // The same in each try, so that the fleet hears the signature once.
  const { runId } = Context.current().info.workflowExecution ?? {};
  if (runId === undefined) throw new Error("a planned drain is an activity of its workflow");
  try {
    const order = { hosts: [host], reason };
    const answer = await fleet.executeUpdate(drainUpdate, {
      updateId: runId,
      args: [order, proof],
    });
    if (answer !== null) return;
  } catch (error) {
    if (!(error instanceof WorkflowUpdateFailedError)) throw error;
    throw refused(host, error.cause?.message ?? error.message);
  }
  // A fleet that asks for proof of orders has it checked first.
  for (let look = 0; look < LOOKS; look += 1) {
    const outcome = await fleet.query(orderQuery, runId);
    if (outcome.kind === "done") return;
    if (outcome.kind === "refused") throw refused(host, outcome.message);
    await sleep(LOOK_EVERY_MS);
  }
  throw new Error(`the fleet has not said what became of the drain of ${host}`);
}

const refused = (host: string, why: string): ApplicationFailure =>
  ApplicationFailure.nonRetryable(`${host} is not drained: ${why}`, "NOT_FOUND");
