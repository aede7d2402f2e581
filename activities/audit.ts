/**
 * @file Holds the ledger against the jobs themselves, by describing each: visibility lags behind, a description does not.
 *
 * A run is closed when its workflow is, or when the job goes on in another run (a reset): the other run is asked to speak for
 * itself. Only a fleet that has lost its ledger looks for jobs in visibility, and looks again later for what came late.
 */

import { isGrpcServiceError, WorkflowNotFoundError, type Client } from "@temporalio/client";
import { heartbeat, log } from "@temporalio/activity";
import { byCodeUnit } from "../domain/ids.ts";
import {
  assertSignal,
  bandwidthModelWorkflowId,
  JOB_WORKFLOW,
  linkMonitorWorkflowId,
  presenceWorkflowId,
  reportAgainSignal,
} from "../workflows/messages.ts";
import type { AuditOrder, AuditReport, Holder, RecoverOrder } from "./control-contract.ts";
import { each } from "./each.ts";

export async function audit(client: Client, { holders, asked }: AuditOrder): Promise<AuditReport> {
  const closed: Holder[] = [];
  const isAsked = new Set(asked);
  await each(holders, async (holder) => {
    const open = await openRun(client, holder.jobId);
    if (open !== holder.runId) closed.push(holder);
    if (open !== undefined && (open !== holder.runId || isAsked.has(holder.jobId)))
      await askToAssert(client, holder.jobId, open);
  });
  return { closed: closed.sort((a, b) => byCodeUnit(a.jobId, b.jobId)) };
}

/** The run in which a workflow is open now; undefined when it is closed or never was. */
async function openRun(client: Client, workflowId: string): Promise<string | undefined> {
  try {
    const { status, runId } = await client.workflow.getHandle(workflowId).describe();
    return status.name === "RUNNING" || status.name === "PAUSED" ? runId : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || isInvalidArgument(error)) return undefined;
    throw error;
  }
}

const INVALID_ARGUMENT = 3;

/** A workflow that cannot even be named (junk in a request) is as gone as one that is closed. */
export function isInvalidArgument(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return isGrpcServiceError(cause) && Number(cause.code) === INVALID_ARGUMENT;
}

async function askToAssert(client: Client, jobId: string, runId?: string): Promise<void> {
  try {
    await client.workflow.getHandle(jobId, runId).signal(assertSignal);
  } catch (error) {
    // It has just ended, or is asked again at the next audit.
    log.info("a job could not be asked what it holds", { jobId, error: String(error) });
  }
}

export async function recover(
  client: Client,
  { fleet, clusters, isLedgerLost }: RecoverOrder,
): Promise<void> {
  const reporting = [
    ...clusters.flatMap((cluster) => [
      presenceWorkflowId(fleet, cluster),
      bandwidthModelWorkflowId(fleet, cluster),
    ]),
    linkMonitorWorkflowId(fleet),
  ];
  await each(reporting, async (workflowId) => {
    try {
      await client.workflow.getHandle(workflowId).signal(reportAgainSignal);
    } catch (error) {
      // No agent of this cluster was ever there, nothing was measured in it, or the fleet has one site.
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  });
  if (!isLedgerLost) return;
  const open = client.workflow.list({
    query: `OrbweaverFleet = "${fleet}" AND ExecutionStatus = "Running" AND WorkflowType = "${JOB_WORKFLOW}"`,
  });
  const jobs: string[] = [];
  for await (const { workflowId } of open) {
    jobs.push(workflowId);
    if (jobs.length % 1_000 === 0) heartbeat(jobs.length);
  }
  await each(jobs, (jobId) => askToAssert(client, jobId));
}
