/**
 * @file Waits until a fleet has no request and no lease of a job; the job asks another fleet only after that.
 *
 * A job signals that its request is over, but a delivered signal does not mean that the ledger has applied it. So this activity
 * queries the ledger until it has no request and no lease of the job, vacating leases included. It restarts a fleet that was
 * closed meanwhile, whose last run would give the same answer for ever. A round takes less than the activity's time limit; then
 * Temporal retries it.
 */

import { sleep } from "@temporalio/activity";
import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import type { JobId } from "../domain/values/ids.ts";
import { explainQuery } from "../protocol/messages.ts";
import { reviveFleet } from "./revive-fleet.ts";

const PAUSE_MS = 25;
const PAUSE_MAX_MS = 2_000;
const ROUND_MS = 30_000;

export async function untilForgotten(
  client: Client,
  fleetWorkflowId: string,
  jobId: JobId,
): Promise<void> {
  const fleet = client.workflow.getHandle(fleetWorkflowId);
  const endAtMs = performance.now() + ROUND_MS;
  for (
    let pauseMs = PAUSE_MS;
    performance.now() < endAtMs;
    pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS)
  ) {
    try {
      if ((await fleet.query(explainQuery, jobId)).kind === "unknown") return;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return;
      throw error;
    }
    if (pauseMs >= PAUSE_MAX_MS) await reviveFleet(client, fleetWorkflowId);
    await sleep(pauseMs);
  }
  throw new Error(`${fleetWorkflowId} still holds something of ${jobId}; it is asked again`);
}
