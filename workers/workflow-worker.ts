/**
 * @file The common part of the fleet's and the jobs' workers: the workflow bundle, the logger, a graceful end.
 *
 * Both workers are stateless: when one is killed, another continues from history. Before it polls, a worker makes sure that the
 * namespace has the search attributes that jobs write, or refuses with the command that adds them. A worker on demand skips
 * this check, because a task waits for its start, and ends by itself when it is idle.
 */

import { Client } from "@temporalio/client";
import type { PayloadCodec, WorkerDeploymentVersion } from "@temporalio/common";
import {
  DefaultLogger,
  NativeConnection,
  Runtime,
  Worker,
  type LogEntry,
  type RuntimeOptions,
  type WorkerOptions,
} from "@temporalio/worker";
import type { Logger } from "pino";
import { openNative, type ConnectionConfig } from "./connection.ts";
import { createIdleClock, type IdleClock } from "./on-demand/idle-clock.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { SEARCH_ATTRIBUTES } from "../domain/values/search-attributes.ts";
import { ensureSearchAttributes } from "./server/index.ts";
import { ownPollerIdentity } from "./own-identity.ts";
import { READY_BUCKETS } from "./ready-meter.ts";
import { askingInterceptor } from "./codec/sealed-answers.ts";
import { servedVersion, watchServedVersion, type RoutingChange } from "./served-version.ts";
import { wakingInterceptor } from "./waking.ts";
import type { WordRole } from "../protocol/messages.ts";
import { nodeSystem } from "../agent/system/node-system.ts";
import { refusedTasks } from "./refused-tasks.ts";
import { sealedTasks } from "./sealed-tasks.ts";
import { readableMemos } from "./readable-memos.ts";
import { signingInterceptor, wordProver } from "./word-signer.ts";
import { workflowBundle } from "./workflow-bundle.ts";

export { bundlePath } from "./workflow-bundle.ts";

export interface WorkerSetting {
  readonly connection: ConnectionConfig;
  readonly logger: Logger;
  /** Of the fleet; what the worker refuses to do is written there. */
  readonly stateDir: string;
  /** Called once the worker polls. */
  readonly onReady?: () => void;
  /** Ends the worker gracefully; without it, SIGTERM and SIGINT do. */
  readonly signal?: AbortSignal;
  /** The worker runs on demand; absent: it runs until it is stopped. */
  readonly onDemand?: OnDemandLife;
}

interface SpeakingSetting extends WorkerSetting {
  /** What its activities tell workflows is signed with the keys of these roles. */
  readonly speaksAs?: readonly WordRole[];
}

export interface OnDemandLife {
  /** Idle time after which the worker ends. */
  readonly idleMs: number;
  /** The deployment version whose tasks the worker takes; absent: unversioned tasks. */
  readonly version?: WorkerDeploymentVersion;
  /** The worker is about to stop polling; later tasks are for another worker. */
  readonly onDraining?: () => void;
  /** The worker has finished its tasks; its connection is still open. */
  readonly onDrained?: (client: Client, taskQueue: string) => Promise<void>;
}

/**
 * How long workflow code may run without a pause. The SDK (1.24) has an option that its types do not show, and 5 s otherwise, which pass by the clock on a machine that is busy with much else.
 * Node (20) ends the whole process where that time is over in an async function. Less than a task of the fleet has.
 */
export const LONG_WORKFLOW_CODE = { isolateExecutionTimeout: "25s" } as const;

export interface WorkerParts {
  readonly taskQueue: string;
  readonly activities: object;
  readonly tuning?: Partial<WorkerOptions>;
}

/** Runs one worker until it is stopped. `build` gets a client over the worker's own connection. */
export async function runWorkflowWorker(
  { connection, logger, stateDir, onReady, signal, onDemand, speaksAs = [] }: SpeakingSetting,
  build: (client: Client) => WorkerParts,
): Promise<void> {
  installRuntime(logger, signal === undefined);
  const native = await openNative(connection);
  try {
    if (onDemand === undefined) {
      await ensureSearchAttributes(native, connection.namespace, SEARCH_ATTRIBUTES);
    }
    const client = clientOver(native, connection, speaksAs);
    const { taskQueue, activities, tuning } = build(client);
    const clock = createIdleClock(onDemand?.idleMs ?? Infinity, performance.now());
    const { dataConverter, keys } = connection.workerPayloads;
    const refused = refusedTasks(nodeSystem, {
      ...{ stateDir, taskQueue },
      onTrouble: (why) => logger.warn(why),
    });
    const sealed = keys && sealedTasks(keys, refused.note);
    const payloadCodecs: PayloadCodec[] = [
      ...(sealed === undefined ? [] : [sealed.witness]),
      ...(dataConverter.payloadCodecs ?? []),
      ...(onDemand === undefined ? [] : [witnessOf(clock)]),
    ];
    const options = {
      connection: native,
      namespace: connection.namespace,
      identity: ownPollerIdentity(),
      dataConverter: { ...dataConverter, payloadCodecs },
      ...(sealed !== undefined && { interceptors: { activity: [...sealed.interceptors] } }),
      taskQueue,
      activities,
      workflowBundle: workflowBundle(connection.workerPayloads.isEncrypted),
      shutdownGraceTime: "5s",
      ...LONG_WORKFLOW_CODE,
      ...tuning,
    } as const;
    const given = onDemand?.version;
    let version = given ?? (await firstVersion(client, taskQueue, logger));
    let isReady = false;
    for (;;) {
      const worker = await Worker.create({ ...options, ...versionOptions(version) });
      let change: RoutingChange | undefined;
      const stop = (): void => {
        if (worker.getState() === "RUNNING") worker.shutdown();
      };
      signal?.addEventListener("abort", stop, { once: true });
      const running = worker.run();
      // The idle clock starts only now, so that a task that waited for the start of this process is still taken.
      clock.touch(performance.now());
      if (!isReady) onReady?.();
      isReady = true;
      const watch = onDemand === undefined ? undefined : endWhenIdle(worker, clock, onDemand);
      const endWatch =
        given === undefined
          ? watchServedVersion(client, { taskQueue, version }, (found) => {
              change = found;
              stop();
            })
          : undefined;
      try {
        await running;
      } finally {
        clearInterval(watch);
        endWatch?.();
        signal?.removeEventListener("abort", stop);
      }
      if (change === undefined || signal?.aborted === true) break;
      if (change.kind === "refused") throw change.error;
      version = change.version;
      logger.info({ version: version?.buildId ?? "none" }, "the routing has changed");
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

/** A server that does not tell its routing is served without a version. */
async function firstVersion(
  client: Client,
  taskQueue: string,
  logger: Logger,
): Promise<WorkerDeploymentVersion | undefined> {
  try {
    return await servedVersion(client, taskQueue);
  } catch (error) {
    if (error instanceof OrbweaverError) throw error;
    logger.warn({ error: String(error) }, "the server does not tell its routing of workers");
    return undefined;
  }
}

/** Histories replay on every later build (invariant 9), so no workflow is pinned to an old one. */
const versionOptions = (
  version: WorkerDeploymentVersion | undefined,
): Pick<WorkerOptions, "workerDeploymentOptions"> =>
  version === undefined
    ? {}
    : {
        workerDeploymentOptions: {
          version,
          useWorkerVersioning: true,
          defaultVersioningBehavior: "AUTO_UPGRADE",
        },
      };

/** Sees every payload that comes and goes; changes none. */
function witnessOf(clock: IdleClock): PayloadCodec {
  const see: PayloadCodec["encode"] = (payloads) => {
    clock.touch(performance.now());
    return Promise.resolve(payloads);
  };
  return { encode: see, decode: see };
}

/** A client that shares the worker's connection, signs what it says with the keys of these roles, and whose queries wake the workers that answer them. */
export function clientOver(
  native: NativeConnection,
  { namespace, dataConverter }: ConnectionConfig,
  roles: readonly WordRole[],
): Client {
  const client: Client = new Client({
    connection: native,
    namespace,
    dataConverter,
    interceptors: {
      workflow: [
        wakingInterceptor(() => client),
        signingInterceptor(wordProver(roles)),
        askingInterceptor,
        readableMemos(dataConverter, namespace),
      ],
    },
  });
  return client;
}

let isInstalled = false;

export interface RuntimeSetting {
  /** Turns off heartbeats of workers, for processes of which there are many. */
  readonly isSilent?: boolean;
  /** Serves the SDK's metrics under `/metrics` of this address, with these labels on every series. */
  readonly metrics?: {
    readonly address: string;
    readonly labels: Readonly<Record<string, string>>;
  };
}

/** A process has one Temporal runtime; its logs go to our logger. Throws BAD_INPUT where its metrics cannot be served. */
export function installRuntime(
  logger: Logger,
  handlesSignals: boolean,
  { isSilent = false, metrics }: RuntimeSetting = {},
): void {
  if (isInstalled) return;
  isInstalled = true;
  const options: RuntimeOptions = {
    logger: new DefaultLogger("INFO", (entry) => write(logger, entry)),
    ...(!handlesSignals && { shutdownSignals: [] }),
    ...(isSilent && { workerHeartbeatInterval: 0 }),
  };
  if (metrics === undefined) Runtime.install(options);
  else installMeasured(options, metrics);
}

function installMeasured(
  options: RuntimeOptions,
  { address, labels }: NonNullable<RuntimeSetting["metrics"]>,
): void {
  const prometheus = {
    bindAddress: address,
    countersTotalSuffix: true,
    unitSuffix: true,
    useSecondsForDurations: true,
    histogramBucketOverrides: READY_BUCKETS,
  };
  try {
    const telemetryOptions = { metrics: { prometheus, globalTags: { ...labels } } };
    Runtime.install({ ...options, telemetryOptions });
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    const message = `metrics cannot be served on ${address}: ${found}. Name a free address of this machine, e.g. --metrics 127.0.0.1:9464.`;
    throw new OrbweaverError("BAD_INPUT", message, { cause: error });
  }
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
