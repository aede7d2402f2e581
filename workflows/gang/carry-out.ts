/**
 * @file Carries out a gang's commands: activities on its hosts, and questions to the fleet for their agents.
 *
 * Hosts are found by plain activities: local ones that end together replay in another order (docs/decisions/0014).
 * History: three events for each command; six for a search without success.
 */

import {
  ActivityCancellationType,
  CancellationScope,
  proxyActivities,
  type ActivityOptions,
} from "@temporalio/workflow";
import type { OrderActivities, RunActivities } from "../../protocol/agent-contract.ts";
import type { JobActivities } from "../../protocol/control-contract.ts";
import type { ActivityTimeouts, GangCommand } from "../../machines/gang/gang-commands.ts";
import type { GangAnswer } from "../../machines/gang/gang-state.ts";
import { runOutcomeOf } from "./run-finding.ts";

const { findHost } = proxyActivities<Pick<JobActivities, "findHost">>({
  summary: "the agent of the host",
  startToCloseTimeout: "20s",
});
const { hasLease } = proxyActivities<Pick<JobActivities, "hasLease">>({
  summary: "whether the fleet still has the lease",
  startToCloseTimeout: "20s",
});

type GangCarrier = (command: GangCommand) => Promise<GangAnswer> | undefined;
type Command<Kind extends GangCommand["kind"]> = Extract<GangCommand, { readonly kind: Kind }>;

/**
 * One for all gangs of a job: their commands' ids differ. To be called in a scope that is not cancelled with the workflow; signal handlers
 * run in one that is.
 */
export function gangCarrier(): GangCarrier {
  const watched = new Map<string, CancellationScope>();
  return (command) => {
    switch (command.kind) {
      case "run": {
        const scope = new CancellationScope();
        watched.set(command.id, scope);
        return scope.run(() => run(command)).finally(() => watched.delete(command.id));
      }
      case "stop":
        return stop(command);
      case "find-host":
        return find(command);
      case "stop-watching":
        for (const id of command.ids) watched.get(id)?.cancel();
        return undefined;
    }
  };
}

async function run({
  id,
  host,
  agent,
  order,
  summary,
  timeouts,
}: Command<"run">): Promise<GangAnswer> {
  const activities = proxyActivities<RunActivities>({
    taskQueue: agent.runQueue,
    ...optionsOf(timeouts),
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: { maximumAttempts: 1 },
    summary,
  });
  try {
    const report = await activities.run(order);
    return { kind: "ran", id, host, outcome: { kind: "reported", report } };
  } catch (error) {
    return { kind: "ran", id, host, outcome: runOutcomeOf(error, host) };
  }
}

async function stop({
  id,
  host,
  agent,
  order,
  summary,
  timeouts,
}: Command<"stop">): Promise<GangAnswer> {
  const activities = proxyActivities<OrderActivities>({
    taskQueue: agent.orderQueue,
    ...optionsOf(timeouts),
    retry: { maximumAttempts: 2 },
    summary,
  });
  try {
    const report = await activities.stop(order);
    return { kind: "stopped", id, host, outcome: { kind: "confirmed", report } };
  } catch {
    return { kind: "stopped", id, host, outcome: { kind: "failed" } };
  }
}

async function find({
  id,
  host,
  fleetWorkflowId,
  lease,
}: Command<"find-host">): Promise<GangAnswer> {
  const agent = await findHost(fleetWorkflowId, host);
  const isAsked = agent === null && lease !== undefined;
  const isLeaseGone = isAsked && !(await hasLease(fleetWorkflowId, lease));
  return { kind: "found", id, host, agent, ...(isLeaseGone && { isLeaseGone }) };
}

const optionsOf = ({
  scheduleToStartMs,
  startToCloseMs,
  heartbeatMs,
}: ActivityTimeouts): ActivityOptions => ({
  scheduleToStartTimeout: scheduleToStartMs,
  startToCloseTimeout: startToCloseMs,
  heartbeatTimeout: heartbeatMs,
});
