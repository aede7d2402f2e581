/** @file The fleet's worker: fleet workflows in a process of their own, so that no crowd of jobs evicts or delays them. */

import { createDecider } from "../activities/decider.ts";
import { createFleetActivities } from "../activities/fleet-activities.ts";
import { FLEET_TASK_QUEUE } from "../workflows/messages.ts";
import { runWorkflowWorker, type WorkerSetting } from "./workflow-worker.ts";

export interface FleetWorkerSetting extends WorkerSetting {
  /** Folder of the store with the fleets' measured tables. */
  readonly storeDir: string;
}

export async function runFleetWorker(setting: FleetWorkerSetting): Promise<void> {
  const { logger, storeDir } = setting;
  const decider = createDecider({
    storeDir,
    onFallback: (reason) => logger.warn({ reason }, "the baseline answered instead of decide"),
  });
  try {
    await runWorkflowWorker(setting, (client) => ({
      taskQueue: FLEET_TASK_QUEUE,
      activities: createFleetActivities({ client, decider }),
      tuning: { maxCachedWorkflows: 50 },
    }));
  } finally {
    await decider.close();
  }
}
