/** @file The worker of a submit service: takes what the schedules of its fleet ask, and runs no workflows. */

import { Worker } from "@temporalio/worker";
import type { Logger } from "pino";
import { cronTaskQueue, type CronActivities } from "../protocol/cron.ts";
import { openNative, type ConnectionConfig } from "./connection.ts";
import { ownPollerIdentity } from "./own-identity.ts";
import { installRuntime } from "./workflow-worker.ts";

export interface CronWorkerSetting {
  readonly connection: ConnectionConfig;
  readonly logger: Logger;
  readonly fleet: string;
  readonly activities: CronActivities;
}

export interface CronWorker {
  readonly close: () => Promise<void>;
  /** Fails when the worker does. */
  readonly over: Promise<void>;
}

/** A start is a few calls to the server; schedules of one minute begin together. */
const MOST_STARTS = 4;

export async function startCronWorker({
  connection,
  logger,
  fleet,
  activities,
}: CronWorkerSetting): Promise<CronWorker> {
  installRuntime(logger, false, { isSilent: true });
  const native = await openNative(connection);
  const worker = await Worker.create({
    connection: native,
    namespace: connection.namespace,
    identity: ownPollerIdentity(),
    dataConverter: connection.workerPayloads.dataConverter,
    taskQueue: cronTaskQueue(fleet),
    activities,
    maxConcurrentActivityTaskExecutions: MOST_STARTS,
    shutdownGraceTime: "5s",
  });
  const over = worker.run();
  return {
    over,
    async close() {
      if (worker.getState() === "RUNNING") worker.shutdown();
      await over.catch(() => undefined);
      await native.close();
    },
  };
}
