/**
 * @file The messages that an agent sends by itself: it announces and deregisters itself at its cluster's presence, and tells
 * its fleet of freed hosts.
 *
 * An entry for the fleet is repeated with a growing pause until the fleet has it, because the fleet may not have been started
 * yet. A farewell is tried once, because silence shows soon anyway. The announcement starts the cluster's presence where none
 * runs.
 */

import type { Client } from "@temporalio/client";
import { nodeClock } from "../agent/system/node-clock.ts";
import type { TellModel } from "../agent/telemetry/measure-report.ts";
import type { ClusterId } from "../domain/values/ids.ts";
import type { InboxEntry } from "../domain/lease/inbox-entry.ts";
import { OWN_PRIORITY } from "../protocol/fair-tasks.ts";
import {
  arrivedSignal,
  BANDWIDTH_MODEL_RULES,
  BANDWIDTH_MODEL_WORKFLOW,
  bandwidthModelWorkflowId,
  fleetWorkflowId,
  deregisterSignal,
  announceSignal,
  inboxSignal,
  JOB_TASK_QUEUE,
  LINK_MONITOR_RULES,
  LINK_MONITOR_WORKFLOW,
  linkMonitorWorkflowId,
  measuredSignal,
  PRESENCE_WORKFLOW,
  presenceWorkflowId,
  type BandwidthModelInput,
  type LinkMonitorInput,
  type PresenceInput,
  type PresentAgent,
} from "../protocol/messages.ts";

export type TellFleet = (entry: InboxEntry) => Promise<void>;

const PAUSE_MS = 250;
const PAUSE_MAX_MS = 10_000;
const FAREWELL_MS = 3_000;
const CALL_MS = 10_000;

/** Signals the fleet's workflow. */
export const signalFleet =
  (client: Client, fleet: string): TellFleet =>
  (entry) =>
    client.workflow.getHandle(fleetWorkflowId(fleet)).signal(inboxSignal, [entry]);

/** Signals the bandwidth model of a cluster; starts it where none runs. */
export const signalModel =
  (client: Client, fleet: string): TellModel =>
  async (cluster, words) => {
    const input: BandwidthModelInput = { fleet, cluster, rules: BANDWIDTH_MODEL_RULES };
    await client.withAbortSignal(AbortSignal.timeout(CALL_MS), () =>
      client.workflow.signalWithStart(BANDWIDTH_MODEL_WORKFLOW, {
        workflowId: bandwidthModelWorkflowId(fleet, cluster),
        taskQueue: JOB_TASK_QUEUE,
        priority: OWN_PRIORITY,
        args: [input],
        signal: measuredSignal,
        signalArgs: [words],
      }),
    );
  };

/** Tells the fleet's link monitor that an agent has registered; starts the monitor where none runs. */
export async function tellLinkMonitor(client: Client, fleet: string): Promise<void> {
  const input: LinkMonitorInput = { fleet, rules: LINK_MONITOR_RULES };
  await client.withAbortSignal(AbortSignal.timeout(CALL_MS), () =>
    client.workflow.signalWithStart(LINK_MONITOR_WORKFLOW, {
      workflowId: linkMonitorWorkflowId(fleet),
      taskQueue: JOB_TASK_QUEUE,
      priority: OWN_PRIORITY,
      args: [input],
      signal: arrivedSignal,
      signalArgs: [],
    }),
  );
}

/** Announces the agent; fails when the server did not accept the signal. */
export async function sayHere(
  client: Client,
  { fleet, cluster }: { readonly fleet: string; readonly cluster: ClusterId },
  present: PresentAgent,
): Promise<void> {
  const input: PresenceInput = { fleet, cluster };
  await client.withAbortSignal(AbortSignal.timeout(CALL_MS), () =>
    client.workflow.signalWithStart(PRESENCE_WORKFLOW, {
      workflowId: presenceWorkflowId(fleet, cluster),
      taskQueue: JOB_TASK_QUEUE,
      priority: OWN_PRIORITY,
      args: [input],
      signal: announceSignal,
      signalArgs: [present],
    }),
  );
}

/** Reports that the agent ends on purpose. */
export const sayGone = (
  client: Client,
  { fleet, cluster }: { readonly fleet: string; readonly cluster: ClusterId },
  epoch: string,
): Promise<void> =>
  client.workflow.getHandle(presenceWorkflowId(fleet, cluster)).signal(deregisterSignal, { epoch });

/** Whether the fleet has the entry; false when the agent ended before. */
export async function tellUntilHeard(
  tellFleet: TellFleet,
  entry: InboxEntry,
  closing: AbortSignal,
): Promise<boolean> {
  for (let pauseMs = PAUSE_MS; !closing.aborted; pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS)) {
    try {
      await tellFleet(entry);
      return true;
    } catch {
      await nodeClock.pause(pauseMs, closing);
    }
  }
  return false;
}

/** Never fails and never takes long: the agent ends in any case. */
export async function farewell(words: () => Promise<unknown>): Promise<void> {
  const timeout = new AbortController();
  try {
    const late = nodeClock.pause(FAREWELL_MS, timeout.signal);
    await Promise.race([words(), late]);
  } catch {
    // The fleet handles silent agents anyway.
  } finally {
    timeout.abort();
  }
}
