/**
 * @file The agent's report of the launches that run on its hosts or may still start there. A fleet that lost its ledger rebuilds it from
 * these reports.
 *
 * A launch counts as soon as its order is on disk, because a second attempt of its `run` may start it. It stops counting when it was
 * revoked, or has ended and left no process behind.
 */

import type { HostId } from "../../domain/values/ids.ts";
import { runId, tenantId } from "../../domain/values/ids.ts";
import type { LeaseFact } from "../../domain/lease/lease.ts";
import type { AgentAddress } from "../../domain/lease/inbox-entry.ts";
import type { AgentReport, LeaseHolder, RunOrder } from "../../protocol/agent-contract.ts";
import { livingRuns, type AgentHost } from "../runs/agent-host.ts";
import { phaseOf, type LocalRun } from "../runs/local-run.ts";

export function agentReport(
  agent: AgentAddress,
  hosts: ReadonlyMap<HostId, AgentHost>,
): AgentReport {
  const all = [...hosts.values()];
  return {
    agent,
    hosts: [...hosts.keys()],
    running: all.flatMap((host) => {
      const facts = unfinishedRuns(host).flatMap((run) => factOf(run) ?? []);
      // Of a lease that runs array tasks there may be several batches: one that ends and one that begins.
      const byLease = new Map(facts.map((lease) => [lease.id, lease]));
      return [...byLease.values()].map((lease) => ({ host: host.id, lease }));
    }),
    highestToken: Math.max(0, ...all.map((host) => host.tokens.highest())),
  };
}

/** Launches of which something runs or may still start. */
export function unfinishedRuns(host: AgentHost): readonly LocalRun[] {
  const living = new Set(livingRuns(host));
  return [...host.open.values()].filter(
    (run) => living.has(run) || (run.stored !== undefined && phaseOf(run).kind === "unclaimed"),
  );
}

function factOf({ stored, files, system }: LocalRun): LeaseFact | undefined {
  if (stored === undefined) return undefined;
  const { order } = stored;
  return {
    id: order.leaseId,
    token: order.token,
    jobId: order.jobId,
    gpus: order.gang.map(({ host, mask }) => ({ host, mask })),
    ...holderOf(order, system.files.stat(files.order)?.mtimeMs ?? 0),
    ...(order.taskBatch !== undefined && { slots: order.taskBatch.slots }),
  };
}

/** Orders that an older agent stored name no holder. A guess keeps their GPUs from being granted twice; any end of the job's run releases it. */
function holderOf(
  order: Omit<RunOrder, "holder"> & { readonly holder?: LeaseHolder },
  storedAtMs: number,
): LeaseHolder {
  if (order.holder !== undefined) return order.holder;
  return {
    runId: runId(order.workflowRunId),
    seq: 0,
    class: "training",
    tenant: tenantId("default"),
    grantedAtMs: Math.floor(storedAtMs),
    requestedAtMs: Math.floor(storedAtMs),
  };
}
