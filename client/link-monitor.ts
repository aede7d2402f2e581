/** @file The link monitor of a fleet, for callers: its state, and probes on demand. Starts the monitor where none runs. */

import { WithStartWorkflowOperation, WorkflowNotFoundError, type Client } from "@temporalio/client";
import { OrbweaverError } from "../domain/values/failure.ts";
import { OWN_PRIORITY } from "../protocol/fair-tasks.ts";
import {
  JOB_TASK_QUEUE,
  LINK_MONITOR_RULES,
  LINK_MONITOR_WORKFLOW,
  linkMonitorWorkflowId,
  linksQuery,
  probeLinksUpdate,
  type LinkMonitorInput,
  type LinkMonitorView,
} from "../protocol/messages.ts";
import { given, userProof } from "./orders.ts";
import { asked } from "./server-error.ts";
import { queried } from "./waking.ts";

export interface LinkMonitorHandle {
  /** Undefined when none runs: the fleet has one site, no agent has registered, or the monitor was terminated. */
  readonly view: () => Promise<LinkMonitorView | undefined>;
  /** Queues probes of the links between these two sites, or of all links; returns their number. */
  readonly probe: (between?: readonly [string, string]) => Promise<number>;
}

export function openLinkMonitor(client: Client, fleet: string): LinkMonitorHandle {
  const workflowId = linkMonitorWorkflowId(fleet);
  const workflow = client.workflow.getHandle(workflowId);
  const subject = `the link monitor of fleet ${fleet}`;
  const input: LinkMonitorInput = { fleet, rules: LINK_MONITOR_RULES };
  return {
    view: async () => {
      try {
        // A closed monitor would answer from its history, if at all.
        const { status } = await asked(client, subject, () => workflow.describe());
        if (status.name !== "RUNNING") return undefined;
        return await queried(client, subject, {
          taskQueue: JOB_TASK_QUEUE,
          query: () => workflow.query(linksQuery),
        });
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return undefined;
        if (error instanceof OrbweaverError && error.code === "NOT_FOUND") return undefined;
        throw error;
      }
    },
    probe: (between) => {
      const value = between === undefined ? {} : { between };
      return given(client, subject, () =>
        client.workflow.executeUpdateWithStart(probeLinksUpdate, {
          args: [value, userProof({ workflowId, signal: probeLinksUpdate.name, value })],
          startWorkflowOperation: new WithStartWorkflowOperation(LINK_MONITOR_WORKFLOW, {
            workflowId,
            taskQueue: JOB_TASK_QUEUE,
            priority: OWN_PRIORITY,
            args: [input],
            workflowIdConflictPolicy: "USE_EXISTING",
          }),
        }),
      );
    },
  };
}
