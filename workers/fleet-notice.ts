/**
 * @file What an agent says by itself: to the presence of its cluster that it is there or ends, to its fleet that a host has become free.
 *
 * `vacated` is said until the fleet has it, with a growing pause: the fleet may not have been started yet. A farewell is tried
 * once: what is not heard of an agent shows soon enough. `here` starts the cluster's presence where there is none.
 */

import type { Client } from "@temporalio/client";
import { abortablePause } from "../activities/agent/abortable-pause.ts";
import type { TellModel } from "../activities/agent/measure-report.ts";
import type { ClusterId } from "../domain/ids.ts";
import type { InboxEntry } from "../scheduling/ledger.ts";
import {
  arrivedSignal,
  BANDWIDTH_MODEL_RULES,
  BANDWIDTH_MODEL_WORKFLOW,
  bandwidthModelWorkflowId,
  fleetWorkflowId,
  goneSignal,
  hereSignal,
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
} from "../workflows/messages.ts";

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

/** Signals the bandwidth model of a cluster, and starts it where there is none. */
export const signalModel =
  (client: Client, fleet: string): TellModel =>
  async (cluster, words) => {
    const input: BandwidthModelInput = { fleet, cluster, rules: BANDWIDTH_MODEL_RULES };
    await client.withAbortSignal(AbortSignal.timeout(CALL_MS), () =>
      client.workflow.signalWithStart(BANDWIDTH_MODEL_WORKFLOW, {
        workflowId: bandwidthModelWorkflowId(fleet, cluster),
        taskQueue: JOB_TASK_QUEUE,
        args: [input],
        signal: measuredSignal,
        signalArgs: [words],
      }),
    );
  };

/** Tells the monitor of the fleet's links that an agent has come, and starts it where there is none. */
export async function tellLinkMonitor(client: Client, fleet: string): Promise<void> {
  const input: LinkMonitorInput = { fleet, rules: LINK_MONITOR_RULES };
  await client.withAbortSignal(AbortSignal.timeout(CALL_MS), () =>
    client.workflow.signalWithStart(LINK_MONITOR_WORKFLOW, {
      workflowId: linkMonitorWorkflowId(fleet),
      taskQueue: JOB_TASK_QUEUE,
      args: [input],
      signal: arrivedSignal,
      signalArgs: [],
    }),
  );
}

/** Asks to be attended; fails when the server did not take it. */
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
      args: [input],
      signal: hereSignal,
      signalArgs: [present],
    }),
  );
}

/** Says that the agent ends on purpose. */
export const sayGone = (
  client: Client,
  { fleet, cluster }: { readonly fleet: string; readonly cluster: ClusterId },
  epoch: string,
): Promise<void> =>
  client.workflow.getHandle(presenceWorkflowId(fleet, cluster)).signal(goneSignal, { epoch });

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
      await abortablePause(pauseMs, closing);
    }
  }
  return false;
}

/** Never fails and never takes long: the agent ends in any case. */
export async function farewell(words: () => Promise<unknown>): Promise<void> {
  const timeout = new AbortController();
  try {
    const late = abortablePause(FAREWELL_MS, timeout.signal);
    await Promise.race([words(), late]);
  } catch {
    // Silence is what the fleet has to live with anyway.
  } finally {
    timeout.abort();
  }
}
