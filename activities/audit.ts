/**
 * @file Compares the ledger with its jobs by describing each workflow, because visibility lags and a description does not.
 *
 * A run is closed when its workflow is closed, or when the job continues in another run (a reset); that run is asked to report
 * itself, and is reported once it has been asked. Only a fleet that has lost its ledger looks for jobs in visibility, and looks again later for entries that came late.
 */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { heartbeat, log } from "@temporalio/activity";
import type { ClosedRun } from "../domain/lease/lease.ts";
import { byCodeUnit } from "../domain/values/ids.ts";
import {
  bandwidthModelWorkflowId,
  JOB_WORKFLOW,
  linkMonitorWorkflowId,
  presenceWorkflowId,
  reportAgainSignal,
} from "../protocol/messages.ts";
import type { AuditOrder, AuditReport, RecoverOrder } from "../protocol/control-contract.ts";
import type { LobbyStoreActivities } from "../protocol/lobby-contract.ts";
import { each } from "../lib/each.ts";
import { listedRuns } from "./listed-runs.ts";
import { askRun, openRun, type Question } from "./open-run.ts";
import { jobsOutside } from "./outside-jobs.ts";

export interface RecoveryPorts {
  readonly client: Client;
  readonly lobbyStore: Pick<LobbyStoreActivities, "loadRows">;
}

const STATE = "OrbweaverState";

export async function audit(
  client: Client,
  { holders, asked, doubted = [] }: AuditOrder,
): Promise<AuditReport> {
  const closed: ClosedRun[] = [];
  const isAsked = new Set(asked);
  await each(holders, async (holder) => {
    const open = await openRun(client, holder.jobId);
    if (open === undefined) {
      closed.push(holder);
      return;
    }
    const isReset = open !== holder.runId;
    if (!isReset && !isAsked.has(holder.jobId)) return;
    const own = doubted.filter(({ jobId }) => jobId === holder.jobId);
    const leases = own.map(({ lease }) => lease);
    const isTold = await askToAssert(client, holder.jobId, { runId: open, leases });
    // Once its leases are free nobody asks the next run any more.
    if (isReset && isTold) closed.push({ ...holder, isReset });
  });
  return { closed: closed.sort((a, b) => byCodeUnit(a.jobId, b.jobId)) };
}

/** False where nobody answered. */
async function askToAssert(client: Client, jobId: string, question: Question): Promise<boolean> {
  try {
    await askRun(client, jobId, question);
    return true;
  } catch (error) {
    // The next audit asks it again.
    log.info("a job could not be asked for its leases", { jobId, error: String(error) });
    return false;
  }
}

/** A job that its lobby lists is not asked: the lobby reports it. */
export async function recover(
  { client, lobbyStore }: RecoveryPorts,
  order: RecoverOrder,
): Promise<void> {
  const { fleet, clusters, isLedgerLost, areWordsLost } = order;
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
  const outside = await jobsOutside(client, lobbyStore, order);
  const query = `OrbweaverFleet = "${fleet}" AND ExecutionStatus = "Running" AND WorkflowType = "${JOB_WORKFLOW}"`;
  const jobs: { readonly jobId: string; readonly runId: string }[] = [];
  for await (const { workflowId: jobId, runId, attribute } of listedRuns(client, query)) {
    const mayWait = attribute(STATE) === "pending";
    if (mayWait && outside.has(jobId)) continue;
    jobs.push({ jobId, runId });
    if (jobs.length % 1_000 === 0) heartbeat(jobs.length);
  }
  await each(jobs, ({ jobId, runId }) => askToAssert(client, jobId, { runId }));
}
