/** @file The floor's activities: one starts a process and waits for its end, one signals workflows with a client. */

import type { Client } from "@temporalio/client";
import { runSupervised, type SupervisedPlace } from "./supervised-process.ts";

export interface FloorActivities {
  startProcess(command: readonly string[]): Promise<number>;
  tell(workflowIds: readonly string[], signal: string, args: readonly unknown[]): Promise<void>;
}

export const createFloorActivities = (client: Client, place: SupervisedPlace): FloorActivities => ({
  startProcess: (command) => runSupervised(command, place),
  tell: async (workflowIds, signal, args) => {
    await Promise.all(
      workflowIds.map((workflowId) =>
        client.workflow.getHandle(workflowId).signal(signal, ...args),
      ),
    );
  },
});
