/** @file The jobs' worker: job, lobby and log-session workflows. The number of such workers follows the load. */

import { createCollectiveActivities } from "../activities/collectives/tune.ts";
import { createJobActivities } from "../activities/job-activities.ts";
import { createLinkEndsActivities } from "../activities/link-ends-activities.ts";
import { createLobbyActivities } from "../activities/lobby-activities.ts";
import { createWordActivities, wordTrust } from "../activities/word-checker.ts";
import { JOB_TASK_QUEUE } from "../protocol/messages.ts";
import { runWorkflowWorker, type WorkerSetting } from "./workflow-worker.ts";

export async function runJobsWorker(setting: WorkerSetting): Promise<void> {
  const { keys } = setting.connection.workerPayloads;
  const words = createWordActivities(wordTrust(process.env, keys));
  await runWorkflowWorker({ ...setting, speaksAs: ["jobs"] }, (client) => ({
    taskQueue: JOB_TASK_QUEUE,
    activities: {
      ...createJobActivities(client, keys),
      ...createCollectiveActivities(),
      ...createLinkEndsActivities(client),
      ...createLobbyActivities(client, words),
      ...words,
    },
    // A local activity waits for the acknowledgement of a batch, so some jobs must be able to wait at once; more of them would only wait in
    // the server's front, before the steps of jobs that run (docs/decisions/0104-floods-of-jobs.md).
    tuning: {
      maxCachedWorkflows: 2_000,
      maxConcurrentLocalActivityExecutions: 1_000,
      maxConcurrentWorkflowTaskExecutions: 12,
    },
  }));
}
