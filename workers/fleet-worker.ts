/** @file The fleet's worker: fleet workflows in a process of their own, so that many jobs neither evict nor delay them. */

import { heartbeat } from "@temporalio/activity";
import { dirname, join } from "node:path";
import { makeRoleKeys, signingKey } from "../access/role-keys.ts";
import { createDecider } from "../activities/decider.ts";
import { createFleetActivities } from "../activities/fleet-activities.ts";
import { createLobbyStore } from "../activities/lobby-store.ts";
import { directoryStore, lobbyStoreDir } from "../activities/store.ts";
import { ticketPrinter } from "../activities/tickets.ts";
import { usedSignatures } from "../activities/used-signatures.ts";
import { createWordActivities, wordTrust } from "../activities/word-checker.ts";
import { weightsKeepers } from "../client/gpu-use.ts";
import { clusterId } from "../domain/values/ids.ts";
import { FLEET_TASK_QUEUE } from "../protocol/messages.ts";
import { runWorkflowWorker, type WorkerSetting } from "./workflow-worker.ts";

export interface FleetWorkerSetting extends WorkerSetting {
  /** Folder of the store with the fleets' measured tables, and with the rows of lobbies. */
  readonly storeDir: string;
}

export async function runFleetWorker(setting: FleetWorkerSetting): Promise<void> {
  const { logger, storeDir, stateDir } = setting;
  const { keys } = setting.connection.workerPayloads;
  const decider = createDecider({
    storeDir,
    onFallback: (reason) =>
      logger.warn({ reason }, "the baseline decided instead, because decide failed or overran"),
  });
  makeRoleKeys();
  const tickets = ticketPrinter(signingKey());
  const signatures = usedSignatures({
    // A job says itself which fleet it is for, so those of one user share it. In a folder of its own, since others may list the one above.
    file: join(dirname(stateDir), ".signatures", "used"),
    onTrouble: (why) => logger.warn(why),
  });
  const words = createWordActivities(wordTrust(process.env, keys));
  const lobbyStore = createLobbyStore(directoryStore(lobbyStoreDir(storeDir)), heartbeat);
  try {
    await runWorkflowWorker({ ...setting, speaksAs: ["fleet"] }, (client) => ({
      taskQueue: FLEET_TASK_QUEUE,
      activities: {
        ...createFleetActivities({
          ...{ client, decider, lobbyStore, tickets, signatures, words },
          keepersOf: async ({ fleet, cluster }, signal) =>
            client.withAbortSignal(signal, () =>
              weightsKeepers(client, { fleet, cluster: clusterId(cluster) }),
            ),
        }),
        ...words,
        ...lobbyStore,
      },
      tuning: { maxCachedWorkflows: 50 },
    }));
  } finally {
    await decider.close();
  }
}
