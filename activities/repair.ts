/**
 * @file Asks everybody concerned by a repair again: the workflows of jobs, and the agents of hosts.
 *
 * A job denies a lease when its run is over, or when it is open and says itself that it neither runs on it nor has it in hand. What was
 * delivered to it before the question is in its answer: a query waits for the workflow task that is due. Only then are the agents asked: a
 * sweep of one pass orders each host to stop whatever runs under the lease's token, and an agent answers when nothing does and nothing can
 * start. Whoever does not answer denies nothing. A run that goes on for one that is over is asked what it holds and wants.
 */

import { heartbeat, log } from "@temporalio/activity";
import type { Client } from "@temporalio/client";
import { OWN_PRIORITY } from "../protocol/fair-tasks.ts";
import type { HostId } from "../domain/values/ids.ts";
import {
  JOB_TASK_QUEUE,
  jobViewQuery,
  repairSweepWorkflowId,
  SWEEP_WORKFLOW,
  type SweepInput,
} from "../protocol/messages.ts";
import { doesDeny } from "../protocol/job.ts";
import type { DoubtedLease, DoubtedRun, RepairOrder, RepairReport } from "../protocol/repair.ts";
import { isOver } from "./open-run.ts";
import { each } from "../lib/each.ts";
import type { TicketPrinter } from "./tickets.ts";

/** A host is given up on after half a minute without its agent. A stop that takes longer goes on. */
const SWEEP_TIMEOUT = "2m";

export async function repair(
  { client, tickets }: { readonly client: Client; readonly tickets: Pick<TicketPrinter, "stop"> },
  { fleet, leases, requests }: RepairOrder,
): Promise<RepairReport> {
  const denied: { lease: DoubtedLease["lease"]; hosts: readonly HostId[] }[] = [];
  const closed: DoubtedRun[] = [];
  const overOf = askedOnce(client);
  await each(requests, async (run) => {
    if ((await overOf(run)) === true) closed.push(run);
  });
  await each(leases, async (doubted) => {
    heartbeat();
    const isRunOver = await overOf(doubted);
    if (isRunOver === undefined) return;
    if (!isRunOver && !(await isDeniedByJob(client, doubted))) return;
    const { jobId, lease, token, hosts } = doubted;
    const order = { fleet, jobId, lease, token, hosts, passes: 1 };
    const sweep = { ...order, ticket: tickets.stop(order) };
    denied.push({ lease, hosts: await hostsThatDeny(client, sweep) });
  });
  return { denied, closed };
}

/** Whether a run is over, asked once for all that it is doubted for; undefined where the run that goes on for it could not be asked. */
function askedOnce(client: Client): (run: DoubtedRun) => Promise<boolean | undefined> {
  const asked = new Map<string, Promise<boolean | undefined>>();
  return ({ jobId, runId }) => {
    const key = `${jobId} ${runId}`;
    const answer =
      asked.get(key) ??
      isOver(client, { jobId, runId }).catch((error: unknown) => {
        log.info("nobody says whether a job's run is over", { jobId, error: String(error) });
        return undefined;
      });
    asked.set(key, answer);
    return answer;
  };
}

async function isDeniedByJob(
  client: Client,
  { jobId, runId, lease }: DoubtedLease,
): Promise<boolean> {
  try {
    return doesDeny(await client.workflow.getHandle(jobId, runId).query(jobViewQuery), lease);
  } catch (error) {
    log.info("a job does not say which lease it holds", { jobId, error: String(error) });
    return false;
  }
}

async function hostsThatDeny(client: Client, order: SweepInput): Promise<readonly HostId[]> {
  const { fleet, lease, jobId, hosts } = order;
  if (hosts.length === 0) return [];
  try {
    const left: readonly HostId[] = await client.workflow.execute(SWEEP_WORKFLOW, {
      workflowId: repairSweepWorkflowId(fleet, lease),
      taskQueue: JOB_TASK_QUEUE,
      args: [order],
      priority: OWN_PRIORITY,
      workflowIdConflictPolicy: "USE_EXISTING",
      workflowExecutionTimeout: SWEEP_TIMEOUT,
      staticSummary: `repair: what is left of ${lease} of ${jobId}`,
    });
    return hosts.filter((host) => !left.includes(host));
  } catch (error) {
    log.warn("a sweep for a repair has failed", { lease, error: String(error) });
    return [];
  }
}
