/**
 * @file What runs on an agent's hosts, and what may still start there: the agent's word in which a fleet finds its ledger again.
 *
 * A launch counts as soon as its order is on disk, because a second attempt of its `run` may start it; it stops counting when it was
 * revoked, or has ended and left nothing behind.
 */

import { statSync } from "node:fs";
import type { HostId } from "../../domain/ids.ts";
import { runId, tenantId } from "../../domain/ids.ts";
import type { LeaseFact } from "../../domain/lease.ts";
import type { AgentAddress } from "../../scheduling/ledger.ts";
import type { AgentReport, LeaseHolder, RunOrder } from "../agent-contract.ts";
import { livingRuns, type AgentHost } from "./agent-host.ts";
import { phaseOf, type LocalRun } from "./local-run.ts";

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
    (run) =>
      living.has(run) || (run.stored !== undefined && phaseOf(run.files).kind === "unclaimed"),
  );
}

function factOf({ stored, files }: LocalRun): LeaseFact | undefined {
  if (stored === undefined) return undefined;
  const { order } = stored;
  return {
    id: order.leaseId,
    token: order.token,
    jobId: order.jobId,
    gpus: order.gang.map(({ host, mask }) => ({ host, mask })),
    ...holderOf(order, files.order),
    ...(order.taskBatch !== undefined && { slots: order.taskBatch.slots }),
  };
}

/** Orders that an older agent stored name no holder. A guess keeps their GPUs from being granted twice; any end of the job's run releases it. */
function holderOf(
  order: Omit<RunOrder, "holder"> & { readonly holder?: LeaseHolder },
  orderPath: string,
): LeaseHolder {
  if (order.holder !== undefined) return order.holder;
  const storedAtMs = statSync(orderPath, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return {
    runId: runId(order.workflowRunId),
    seq: 0,
    class: "training",
    tenant: tenantId("default"),
    grantedAtMs: Math.floor(storedAtMs),
    requestedAtMs: Math.floor(storedAtMs),
  };
}
