/**
 * @file The solver's worker: long computations, apart from workers that must answer at once. Trains bandwidth models, and makes
 * launch extras.
 *
 * It takes few orders at a time: trainings on one machine would only slow each other, and a publication must not wait for all
 * of them.
 */

import { cancellationSignal, heartbeat } from "@temporalio/activity";
import { createModelActivities } from "../activities/model-activities.ts";
import { createLaunchExtrasActivities } from "../activities/launch-extras/launch-extras.ts";
import { createPolishActivities } from "../activities/launch-extras/polish.ts";
import { providersOver } from "../activities/launch-extras/providers.ts";
import { directoryStore } from "../activities/store.ts";
import type { Learner } from "../models/bandwidth/learner.ts";
import { surrogateLearner } from "../models/bandwidth/surrogate-learner.ts";
import { SOLVER_TASK_QUEUE } from "../protocol/messages.ts";
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
      ...createPolishActivities({
        client,
        storeDir,
        beat: () => heartbeat(),
        cancelled: () => cancellationSignal(),
      }),
      ...createLaunchExtrasActivities({ client, storeDir, loadProvider: providersOver(client) }),
    },
    tuning: { maxConcurrentActivityTaskExecutions: 4, maxCachedWorkflows: 10 },
  }));
}
