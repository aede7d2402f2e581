/**
 * @file The solver's worker: what takes long and much of a processor, apart from those that must answer at once. Trains bandwidth
 * models, and makes what runs are given before they start.
 *
 * Few orders at a time: trainings on one machine only wait for each other, and a publication must not wait for all of them.
 */

import { heartbeat } from "@temporalio/activity";
import { createModelActivities } from "../activities/model-activities.ts";
import { createOutfitActivities } from "../activities/outfit/outfitter.ts";
import { providersOver } from "../activities/outfit/providers.ts";
import { directoryStore } from "../activities/store.ts";
import type { Learner } from "../models/learner.ts";
import { surrogateLearner } from "../models/surrogate-learner.ts";
import { SOLVER_TASK_QUEUE } from "../workflows/messages.ts";
import { runWorkflowWorker, type WorkerSetting } from "./workflow-worker.ts";

export interface SolverWorkerSetting extends WorkerSetting {
  /** Folder of the fleet's store, the one that its fleet worker reads. */
  readonly storeDir: string;
  readonly learner?: Learner;
}

export async function runSolverWorker(setting: SolverWorkerSetting): Promise<void> {
  const { storeDir, learner = surrogateLearner } = setting;
  await runWorkflowWorker(setting, (client) => ({
    taskQueue: SOLVER_TASK_QUEUE,
    activities: {
      ...createModelActivities({
        client,
        storeDir,
        store: directoryStore(storeDir),
        learner,
        nowMs: Date.now,
        beat: () => heartbeat(),
      }),
      ...createOutfitActivities({ client, storeDir, loadProvider: providersOver(client) }),
    },
    tuning: { maxConcurrentActivityTaskExecutions: 4, maxCachedWorkflows: 10 },
  }));
}
