/** @file The floor's activities: one starts a process and waits for its end, one signals workflows with a client. */

import type { Client } from "@temporalio/client";
import { spawn } from "node:child_process";
import { once } from "node:events";

export interface FloorActivities {
  startProcess(command: readonly string[]): Promise<number>;
  tell(workflowIds: readonly string[], signal: string, args: readonly unknown[]): Promise<void>;
}

export const createFloorActivities = (client: Client): FloorActivities => ({
  startProcess: async ([file = "true", ...args]) => {
    const child = spawn(file, args, { stdio: "ignore" });
    await once(child, "exit");
    return child.exitCode ?? 1;
  },
  tell: async (workflowIds, signal, args) => {
    await Promise.all(
      workflowIds.map((workflowId) =>
        client.workflow.getHandle(workflowId).signal(signal, ...args),
      ),
    );
  },
});
