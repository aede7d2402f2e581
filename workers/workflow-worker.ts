/**
 * @file What the fleet's and the jobs' workers have in common: the workflow bundle, the logger, a graceful end.
 *
 * Both are stateless: killed at any moment, another one goes on from history. Before it polls, a worker sees to it that the namespace
 * has the search attributes that jobs write, or refuses with the command that adds them. A worker on demand leaves that to
 * whoever set it up, because its start is waited for, and ends by itself when it is idle.
 */

import { Client } from "@temporalio/client";
import type { PayloadCodec, WorkerDeploymentVersion } from "@temporalio/common";
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
import { createIdleClock, type IdleClock } from "./on-demand/idle-clock.ts";
import { SEARCH_ATTRIBUTES } from "../domain/search-attributes.ts";
import { ensureSearchAttributes } from "./server/index.ts";
import { wakingInterceptor } from "./waking.ts";
import { workflowBundle } from "./workflow-bundle.ts";

export { bundlePath } from "./workflow-bundle.ts";

export interface WorkerSetting {
  readonly connection: ConnectionConfig;
  readonly logger: Logger;
  /** Called once the worker polls. */
  readonly onReady?: () => void;
  /** Ends the worker gracefully; without it, SIGTERM and SIGINT do. */
  readonly signal?: AbortSignal;
  /** The worker runs on demand; absent: until it is told to end. */
  readonly onDemand?: OnDemandLife;
}

export interface OnDemandLife {
  /** The worker ends after so long without work. */
  readonly idleMs: number;
  /** The deployment version whose tasks it takes; absent: it is unversioned. */
  readonly version?: WorkerDeploymentVersion;
  /** The worker is about to stop polling: what comes from here on is for another one. */
  readonly onDraining?: () => void;
  /** All that it had taken is done; the connection still stands. */
  readonly onDrained?: (client: Client, taskQueue: string) => Promise<void>;
}

export interface WorkerParts {
  readonly taskQueue: string;
  readonly activities: object;
  readonly tuning?: Partial<WorkerOptions>;
}

/** Runs one worker until it is told to end. `build` gets a client over the worker's own connection. */
export async function runWorkflowWorker(
  { connection, logger, onReady, signal, onDemand }: WorkerSetting,
  build: (client: Client) => WorkerParts,
): Promise<void> {
  installRuntime(logger, signal === undefined);
  const native = await openNative(connection);
  try {
    if (onDemand === undefined) {
      await ensureSearchAttributes(native, connection.namespace, SEARCH_ATTRIBUTES);
    }
    const client = clientOver(native, connection);
    const { taskQueue, activities, tuning } = build(client);
    const clock = createIdleClock(onDemand?.idleMs ?? Infinity, performance.now());
    const { dataConverter } = connection.workerPayloads;
    const worker = await Worker.create({
      connection: native,
      namespace: connection.namespace,
      dataConverter:
        onDemand === undefined
          ? dataConverter
          : {
              ...dataConverter,
              payloadCodecs: [...(dataConverter.payloadCodecs ?? []), witnessOf(clock)],
            },
      ...(onDemand?.version !== undefined && {
        workerDeploymentOptions: {
          version: onDemand.version,
          useWorkerVersioning: true,
          // Histories replay on every later build (invariant 9), so nothing has to be pinned to an old one.
          defaultVersioningBehavior: "AUTO_UPGRADE",
        },
      }),
      taskQueue,
      activities,
      workflowBundle: workflowBundle(connection.workerPayloads.isEncrypted),
      shutdownGraceTime: "5s",
      ...tuning,
    });
    signal?.addEventListener("abort", () => worker.shutdown(), { once: true });
    const running = worker.run();
    // What waited for the start of this process must not be left by a clock that ran meanwhile.
    clock.touch(performance.now());
    onReady?.();
    const watch = onDemand === undefined ? undefined : endWhenIdle(worker, clock, onDemand);
    try {
      await running;
    } finally {
      clearInterval(watch);
    }
    await onDemand?.onDrained?.(client, taskQueue);
  } finally {
    await native.close();
  }
}

const LOOK_EVERY_MS = 100;

function endWhenIdle(
  worker: Worker,
  clock: IdleClock,
  { onDraining }: OnDemandLife,
): NodeJS.Timeout {
  const watch = setInterval(() => {
    const status = worker.getStatus();
    if (status.runState !== "RUNNING" || !clock.isIdle(status, performance.now())) return;
    clearInterval(watch);
    onDraining?.();
    worker.shutdown();
  }, LOOK_EVERY_MS);
  return watch;
}

/** Sees every payload that comes and goes; changes none. */
function witnessOf(clock: IdleClock): PayloadCodec {
  const see: PayloadCodec["encode"] = (payloads) => {
    clock.touch(performance.now());
    return Promise.resolve(payloads);
  };
  return { encode: see, decode: see };
}

/** A client that shares the worker's connection, and whose queries wake the workers that answer them. */
export function clientOver(
  native: NativeConnection,
  { namespace, dataConverter }: ConnectionConfig,
): Client {
  const client: Client = new Client({
    connection: native,
    namespace,
    dataConverter,
    interceptors: { workflow: [wakingInterceptor(() => client)] },
  });
  return client;
}

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
