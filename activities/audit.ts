/**
 * @file Compares the ledger with its jobs by describing each workflow, because visibility lags and a description does not.
 *
 * A run is closed when its workflow is closed, or when the job continues in another run (a reset); that run is asked to report
 * itself. Only a fleet that has lost its ledger looks for jobs in visibility, and looks again later for entries that came late.
 */

import { isGrpcServiceError, WorkflowNotFoundError, type Client } from "@temporalio/client";
import { defineSearchAttributeKey } from "@temporalio/common";
import { heartbeat, log } from "@temporalio/activity";
import type { ClosedRun } from "../domain/lease/lease.ts";
import { byCodeUnit, type LeaseId } from "../domain/values/ids.ts";
import {
  assertSignal,
  bandwidthModelWorkflowId,
  JOB_WORKFLOW,
  linkMonitorWorkflowId,
  presenceWorkflowId,
  reportAgainSignal,
} from "../protocol/messages.ts";
import type { AuditOrder, AuditReport, RecoverOrder } from "../protocol/control-contract.ts";
import type { LobbyStoreActivities } from "../protocol/lobby-contract.ts";
import { each } from "../lib/each.ts";
import { tellJob } from "./job-words.ts";
import { jobsOutside } from "./outside-jobs.ts";

export interface RecoveryPorts {
  readonly client: Client;
  readonly lobbyStore: Pick<LobbyStoreActivities, "loadRows">;
}

const STATE_KEY = defineSearchAttributeKey("OrbweaverState", "KEYWORD");

export async function audit(
  client: Client,
  { holders, asked, doubted = [] }: AuditOrder,
): Promise<AuditReport> {
  const closed: ClosedRun[] = [];
  const isAsked = new Set(asked);
  await each(holders, async (holder) => {
    const open = await openRun(client, holder.jobId);
    if (open !== holder.runId)
      closed.push({ ...holder, ...(open !== undefined && { isReset: true }) });
    if (open === undefined || (open === holder.runId && !isAsked.has(holder.jobId))) return;
    const own = doubted.filter(({ jobId }) => jobId === holder.jobId);
    const leases = own.map(({ lease }) => lease);
    await askToAssert(client, holder.jobId, { runId: open, leases });
  });
  return { closed: closed.sort((a, b) => byCodeUnit(a.jobId, b.jobId)) };
}

/** The run in which a workflow is open now; undefined when it is closed or never was. */
export async function openRun(client: Client, workflowId: string): Promise<string | undefined> {
  try {
    const { status, runId } = await client.workflow.getHandle(workflowId).describe();
    return status.name === "RUNNING" || status.name === "PAUSED" ? runId : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || isInvalidArgument(error)) return undefined;
    throw error;
  }
}

const INVALID_ARGUMENT = 3;

/** A workflow with an invalid id (junk in a request) counts as closed. */
export function isInvalidArgument(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return isGrpcServiceError(cause) && Number(cause.code) === INVALID_ARGUMENT;
}

interface Question {
  readonly runId?: string;
  readonly leases?: readonly LeaseId[];
}

async function askToAssert(
  client: Client,
  jobId: string,
  { runId, leases = [] }: Question = {},
): Promise<void> {
  const run = client.workflow.getHandle(jobId, runId);
  try {
    await tellJob({ client, run }, assertSignal, { leases });
  } catch (error) {
    // It has just ended, or the next audit asks it again.
    log.info("a job could not be asked for its leases", { jobId, error: String(error) });
  }
}

/** A job that its lobby lists is not asked: the lobby reports it. */
export async function recover(
  { client, lobbyStore }: RecoveryPorts,
  { fleet, clusters, isLedgerLost, areWordsLost }: RecoverOrder,
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
  if (!isLedgerLost && areWordsLost !== true) return;
  const outside = await jobsOutside(client, lobbyStore, { fleet, isLedgerLost });
  const open = client.workflow.list({
    query: `OrbweaverFleet = "${fleet}" AND ExecutionStatus = "Running" AND WorkflowType = "${JOB_WORKFLOW}"`,
  });
  const jobs: string[] = [];
  for await (const { workflowId, typedSearchAttributes } of open) {
    const mayWait = typedSearchAttributes.get(STATE_KEY) === "pending";
    if (mayWait && outside.has(workflowId)) continue;
    jobs.push(workflowId);
    if (jobs.length % 1_000 === 0) heartbeat(jobs.length);
  }
  await each(jobs, (jobId) => askToAssert(client, jobId));
}
