/** @file The sweep of a lease: carries out what `machines/hosts/sweep.ts` asks for, on the hosts and at the fleet. */

import { continueAsNew, proxyActivities } from "@temporalio/workflow";
import type { HostId } from "../../domain/values/ids.ts";
import {
  openSweep,
  sweepMachine,
  type SweepCommand,
  type SweepEvent,
} from "../../machines/hosts/sweep.ts";
import type { OrderActivities } from "../../protocol/agent-contract.ts";
import type { JobActivities } from "../../protocol/control-contract.ts";
import { fleetWorkflowId, type SweepInput } from "../../protocol/messages.ts";
import { drive } from "../runtime/drive.ts";

/** No local activities: several at a time end in another order on replay (docs/decisions/0014). */
const { findHost, tellFleet, hasLease } = proxyActivities<
  Pick<JobActivities, "findHost" | "tellFleet" | "hasLease">
>({
  summary: "host and lease, asked of the fleet or told to it",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
});

/** The hosts that have not confirmed, where the number of passes is limited. */
export async function sweep(input: SweepInput): Promise<readonly HostId[] | undefined> {
  const { fleet, lease } = input;
  const fleetId = fleetWorkflowId(fleet);
  const { state, commands } = openSweep(input);
  const { until } = drive({ machine: sweepMachine, state, carryOut }, commands);
  const { end, left } = await until((now) => now.end !== undefined);
  if (end?.next !== undefined) await continueAsNew<typeof sweep>(end.next);
  return input.passes === undefined ? undefined : left;

  async function carryOut(command: SweepCommand): Promise<SweepEvent> {
    switch (command.kind) {
      case "find": {
        const { host } = command;
        return { kind: "found", host, agent: await findHost(fleetId, host) };
      }
      case "stop": {
        const { host } = command;
        return { kind: "stopped", host, isConfirmed: await isStopped(input, command) };
      }
      case "tell": {
        const { host } = command;
        await tellFleet(fleetId, { kind: "vacated", lease, hosts: [host] });
        return { kind: "told", host };
      }
      case "check-lease":
        return { kind: "lease-checked", isHeld: await hasLease(fleetId, lease) };
    }
  }
}

async function isStopped(
  { jobId, lease, token, ticket }: SweepInput,
  { host, agent }: Extract<SweepCommand, { kind: "stop" }>,
): Promise<boolean> {
  const { stop } = proxyActivities<Pick<OrderActivities, "stop">>({
    taskQueue: agent.orderQueue,
    startToCloseTimeout: "10m",
    scheduleToStartTimeout: "30s",
    // An order that is lost on its way to the agent counts as begun; without beats it would hold the GPUs for ten minutes.
    heartbeatTimeout: "30s",
    retry: { maximumAttempts: 2 },
    summary: `sweep ${lease} of ${jobId} on ${host}`,
  });
  try {
    const reason = "its job is gone";
    const order = { jobId, host, leaseId: lease, token, isCheckpointFirst: false, reason };
    await stop({ ...order, ...(ticket !== undefined && { ticket }) });
    return true;
  } catch {
    // No answer is no proof: the host is asked again.
    return false;
  }
}
