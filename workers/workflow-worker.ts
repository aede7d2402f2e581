/**
 * @file What the fleet's and the jobs' workers have in common: the workflow bundle, the logger, a graceful end.
 *
 * Both are stateless: killed at any moment, another one goes on from history. Before it polls, a worker sees to it that the namespace
 * has the search attributes that jobs write, or refuses with the command that adds them.
 */

import { Client } from "@temporalio/client";
import {
  DefaultLogger,
  NativeConnection,
  Runtime,
  Worker,
  type LogEntry,
  type WorkerOptions,
} from "@temporalio/worker";
import type { Logger } from "pino";
import { openNative, type ConnectionConfig } from "./connection.ts";
import { SEARCH_ATTRIBUTES } from "../domain/search-attributes.ts";
import { ensureSearchAttributes } from "./server/index.ts";
import { workflowBundle } from "./workflow-bundle.ts";

export { bundlePath } from "./workflow-bundle.ts";

export interface WorkerSetting {
  readonly connection: ConnectionConfig;
  readonly logger: Logger;
  /** Called once the worker polls. */
  readonly onReady?: () => void;
  /** Ends the worker gracefully; without it, SIGTERM and SIGINT do. */
  readonly signal?: AbortSignal;
}

export interface WorkerParts {
  readonly taskQueue: string;
  readonly activities: object;
  readonly tuning?: Partial<WorkerOptions>;
}

/** Runs one worker until it is told to end. `build` gets a client over the worker's own connection. */
export async function runWorkflowWorker(
  { connection, logger, onReady, signal }: WorkerSetting,
  build: (client: Client) => WorkerParts,
): Promise<void> {
  installRuntime(logger, signal === undefined);
  const native = await openNative(connection);
  try {
    await ensureSearchAttributes(native, connection.namespace, SEARCH_ATTRIBUTES);
    const { taskQueue, activities, tuning } = build(clientOver(native, connection));
    const worker = await Worker.create({
      connection: native,
      namespace: connection.namespace,
      dataConverter: connection.workerPayloads.dataConverter,
      taskQueue,
      activities,
      workflowBundle: workflowBundle(connection.workerPayloads.isEncrypted),
      shutdownGraceTime: "5s",
      ...tuning,
    });
    signal?.addEventListener("abort", () => worker.shutdown(), { once: true });
    const running = worker.run();
    onReady?.();
    await running;
  } finally {
    await native.close();
  }
}

/** A client that shares the worker's connection. */
export const clientOver = (
  native: NativeConnection,
  { namespace, dataConverter }: ConnectionConfig,
): Client => new Client({ connection: native, namespace, dataConverter });

let isInstalled = false;

/** Temporal's runtime is one per process: its logs go where ours go. */
export function installRuntime(
  logger: Logger,
  handlesSignals: boolean,
  {
    isSilent = false,
  }: {
    /** No heartbeats of the workers themselves: for processes of which there are many. */ readonly isSilent?: boolean;
  } = {},
): void {
  if (isInstalled) return;
  isInstalled = true;
  Runtime.install({
    logger: new DefaultLogger("INFO", (entry) => write(logger, entry)),
    ...(!handlesSignals && { shutdownSignals: [] }),
    ...(isSilent && { workerHeartbeatInterval: 0 }),
  });
}

function write(logger: Logger, { level, message, meta }: LogEntry): void {
  const names = {
    TRACE: "trace",
    DEBUG: "debug",
    INFO: "info",
    WARN: "warn",
    ERROR: "error",
  } as const;
  // By the name `err` the logger writes an error with its message and stack.
  const { error, ...facts } = meta ?? {};
  logger[names[level]](error === undefined ? facts : { ...facts, err: error as unknown }, message); // meta is untyped
}
