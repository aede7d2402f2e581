/**
 * @file Starts Temporal's own development server on loopback and waits until it answers.
 *
 * With a database file it may be killed at any moment and started again on the same file and port.
 * Its output goes to a log file, never to a pipe: a server with a pipe to its parent dies with it.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, statSync } from "node:fs";
import { dirname, resolve as absolute } from "node:path";
import { ApplicationFailure } from "@temporalio/common";
import { PRIVATE_DIR, PRIVATE_FILE, withPrivateUmask } from "../../access/private-files.ts";
import type { SearchAttribute } from "../../domain/values/search-attributes.ts";
import { withoutTemporal } from "./environment.ts";
import type { Environment } from "./environment.ts";
import { LOOPBACK, becomesFree, drawFreePort } from "./ports.ts";
import { untilReady } from "./ready.ts";

export interface StartOptions {
  /** The `temporal` program. */
  readonly binary: string;
  /** The server's output is appended to this file. */
  readonly logFile: string;
  readonly searchAttributes: readonly SearchAttribute[];
  /** The server's database; without it the state ends with the process. */
  readonly dbFile?: string;
  /** A free one is drawn when absent. */
  readonly port?: number;
  /** A free one is drawn when absent. */
  readonly uiPort?: number;
  /** The codec server of the web UI. */
  readonly uiCodecEndpoint?: string;
  /** The server reports Prometheus metrics on this port of loopback. */
  readonly metricsPort?: number;
  /** No web UI. */
  readonly headless?: boolean;
  readonly namespace?: string;
  /** Added to, or in place of, the keys of `DYNAMIC_CONFIG`. */
  readonly extraDynamicConfig?: DynamicConfig;
  /** The server outlives this process and does not receive Ctrl-C of its terminal. */
  readonly detached?: boolean;
  readonly readyWithinMs?: number;
  /** How long a given port may still be held by the server that was killed before. */
  readonly portWithinMs?: number;
  readonly env?: Environment;
}

export type DynamicConfig = Readonly<Record<string, string | number | boolean>>;

export interface ServerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface RunningServer {
  readonly address: string;
  /** Absent when headless. */
  readonly uiUrl?: string;
  readonly pid: number;
  /** Sends TERM, and KILL after 5 s. */
  readonly stop: () => Promise<ServerExit>;
  /** Ends the server as a power cut would. */
  readonly kill: () => Promise<ServerExit>;
  readonly exited: Promise<ServerExit>;
}

const MIB = 1024 * 1024;

/**
 * A development server is slow by default: it looks for new tasks on a 50 ms grid and limits the
 * calls a second. These keys lift both; a workflow with one activity falls from 150 to 41 ms.
 */
const DYNAMIC_CONFIG: DynamicConfig = {
  "history.transferProcessorMaxPollRPS": 2000,
  "history.timerProcessorMaxPollRPS": 2000,
  "matching.useNewMatcher": true,
  // Tenants share the workers of a task queue (protocol/fair-tasks.ts).
  "matching.enableFairness": true,
  "matching.numTaskqueueReadPartitions": 1,
  "matching.numTaskqueueWritePartitions": 1,
  // Otherwise every call reads the namespace and the search attributes from the database: half of all that it is asked.
  "system.forceSearchAttributesCacheRefreshOnRead": false,
  // By default a task of the server's own queues gives up its workflow's lock after half a second, and comes back later and later.
  "history.cacheNonUserContextLockTimeout": "10s",
  // A timer that is due sooner than this rings this late; by default a second, for clocks of several machines. A fleet's slices wait for one each.
  "history.timerProcessorMaxTimeShift": "50ms",
  // As many signals as a run takes: by default the 101st that comes during one workflow task fails that task, and while a flood lasts no other begins
  // (docs/decisions/0119-flooded-tasks-end.md).
  "history.maximumBufferedEventsBatch": 10_000,
  // And as many bytes of them as come while a run is repeated; by default 2 MiB, which words of 100 KB one after the other are within a fifth of a second. They count for the state that
  // the server keeps of a run, and are written in one piece, with the answer to the task (docs/decisions/0250-large-words-one-after-the-other.md).
  "history.maximumBufferedEventsSizeInBytes": 32 * MIB,
  "limit.mutableStateSize.error": 64 * MIB,
  "system.transactionSizeLimit": 64 * MIB,
  // An activity of the workflow's own task queue comes with the answer to its task, not through the server's queues.
  "system.enableActivityEagerExecution": true,
  "frontend.rps": 100_000,
  "frontend.namespaceRPS": 100_000,
  "frontend.namespaceCount": 20_000,
  "history.rps": 100_000,
  "matching.rps": 100_000,
  // Lets the server start workers on demand (docs/serverless.md). It acts only for deployments that name a program.
  "workercontroller.enabled": true,
};

/**
 * A write-ahead log takes a third of the processor time of SQLite's rollback journal, and four to five times as many signals a second. As
 * durable: every transaction is still flushed before it counts.
 */
const WRITE_AHEAD = "journal_mode=wal";
/** A database that is made so can give free pages back while it is in use (`cli/house/free-space.ts`); one that is there stays as it is. */
const GIVES_BACK = "auto_vacuum=incremental";
/** Another program may write a moment: who gives pages back. Without it the server's transaction fails at once, and is tried again. */
const WAITS = "busy_timeout=10000";
const PRAGMAS = [WRITE_AHEAD, GIVES_BACK, WAITS].flatMap((each) => ["--sqlite-pragma", each]);

const READY_WITHIN_MS = 180_000;
const STOP_WITHIN_MS = 5_000;
const PORT_WITHIN_MS = 2_000;
/** Another process may take a drawn port before the server does. */
const PORT_DRAWS = 4;
const QUOTED_LINES = 8;

export async function startServer(options: StartOptions): Promise<RunningServer> {
  mkdirSync(dirname(absolute(options.logFile)), { recursive: true, mode: PRIVATE_DIR });
  if (options.dbFile !== undefined) {
    mkdirSync(dirname(absolute(options.dbFile)), { recursive: true, mode: PRIVATE_DIR });
  }
  for (const port of [options.port, options.uiPort]) {
    if (port !== undefined && !(await becomesFree(port, options.portWithinMs ?? PORT_WITHIN_MS))) {
      throw unavailable(
        `port ${String(port)} on ${LOOPBACK} is taken. Name another port, or none.`,
      );
    }
  }
  const hasDrawnPorts =
    options.port === undefined || (options.headless !== true && options.uiPort === undefined);
  for (let draw = 1; ; draw += 1) {
    const outcome = await tryStart(options);
    if (outcome.kind === "running") return outcome.server;
    const isRace = /address already in use/i.test(outcome.logText);
    if (!isRace || !hasDrawnPorts || draw === PORT_DRAWS) throw unavailable(outcome.reason);
  }
}

type StartOutcome =
  | { readonly kind: "running"; readonly server: RunningServer }
  | { readonly kind: "failed"; readonly reason: string; readonly logText: string };

async function tryStart(options: StartOptions): Promise<StartOutcome> {
  const { binary, logFile, namespace = "default", readyWithinMs = READY_WITHIN_MS } = options;
  const port = options.port ?? (await drawFreePort());
  const uiPort =
    options.headless === true
      ? undefined
      : (options.uiPort ?? (await drawFreePort(new Set([port]))));
  const log = openSync(logFile, "a", PRIVATE_FILE);
  const logStart = statSync(logFile).size;
  // The database holds the environment of every job; the server creates it with this umask.
  const child = withPrivateUmask(() =>
    spawn(binary, serverArguments(options, port, uiPort), {
      env: { ...withoutTemporal(options.env ?? process.env) },
      stdio: ["ignore", log, log],
      detached: options.detached === true,
    }),
  );
  closeSync(log);
  const { pid } = child;
  if (pid === undefined) {
    const error = await new Promise<Error>((resolve) => child.once("error", resolve));
    return { kind: "failed", reason: `${binary} cannot be run: ${error.message}`, logText: "" };
  }
  const isDetached = options.detached === true;
  const server = handleOf(child, { pid, port, uiPort, isDetached });

  const stopTrying = new AbortController();
  const clock = setTimeout(() => {
    stopTrying.abort();
  }, readyWithinMs);
  let lastRefusal = "it has not been asked yet";
  const ready = untilReady(
    { host: LOOPBACK, port, namespace, signal: stopTrying.signal },
    (reason) => {
      lastRefusal = reason;
    },
  );
  const end = await Promise.race([ready, server.exited]);
  const isTooLate = stopTrying.signal.aborted;
  clearTimeout(clock);
  stopTrying.abort();
  if (end === undefined && !isTooLate) return { kind: "running", server };
  if (end === undefined) await server.kill();
  const logText = readFileSync(logFile).subarray(logStart).toString("utf8");
  const what =
    end === undefined
      ? `did not answer within ${String(readyWithinMs / 1000)} s (${lastRefusal})`
      : `ended before it answered (${describeExit(end)})`;
  const quoted = logText.trimEnd().split("\n").slice(-QUOTED_LINES).join("\n  ");
  const reason = `${binary} server start-dev ${what}; the last lines of ${logFile}:\n  ${quoted}`;
  return { kind: "failed", reason, logText };
}

function serverArguments(
  options: StartOptions,
  port: number,
  uiPort: number | undefined,
): readonly string[] {
  const { namespace = "default", dbFile, searchAttributes } = options;
  const dynamicConfig = { ...DYNAMIC_CONFIG, ...options.extraDynamicConfig };
  return [
    "server",
    "start-dev",
    // Profiles may point at production.
    "--disable-config-file",
    "--disable-config-env",
    "--ip",
    LOOPBACK,
    "--port",
    String(port),
    ...(uiPort === undefined ? ["--headless"] : ["--ui-port", String(uiPort)]),
    ...(options.uiCodecEndpoint === undefined || uiPort === undefined
      ? []
      : ["--ui-codec-endpoint", options.uiCodecEndpoint]),
    ...(options.metricsPort === undefined ? [] : ["--metrics-port", String(options.metricsPort)]),
    ...(dbFile === undefined ? [] : ["--db-filename", absolute(dbFile), ...PRAGMAS]),
    ...(namespace === "default" ? [] : ["--namespace", namespace]),
    ...searchAttributes.flatMap(({ name, type }) => ["--search-attribute", `${name}=${type}`]),
    ...Object.entries(dynamicConfig).flatMap(([key, value]) => [
      "--dynamic-config-value",
      `${key}=${JSON.stringify(value)}`,
    ]),
  ];
}

interface HandleOptions {
  readonly pid: number;
  readonly port: number;
  readonly uiPort: number | undefined;
  readonly isDetached: boolean;
}

function handleOf(child: ChildProcess, options: HandleOptions): RunningServer {
  const { pid, port, uiPort, isDetached } = options;
  // A failed signal is an error event, which would end this process without a listener.
  child.on("error", () => undefined);
  const exited = new Promise<ServerExit>((resolve) => {
    child.once("exit", (code, signal) => {
      resolve({ code, signal });
    });
  });
  if (isDetached) {
    child.unref();
  } else {
    // Any orderly end of this process ends the server too.
    const killWithUs = (): void => {
      child.kill("SIGKILL");
    };
    process.once("exit", killWithUs);
    void exited.then(() => process.off("exit", killWithUs));
  }
  return {
    address: `${LOOPBACK}:${String(port)}`,
    ...(uiPort === undefined ? {} : { uiUrl: `http://${LOOPBACK}:${String(uiPort)}` }),
    pid,
    exited,
    stop: async () => {
      child.ref();
      child.kill("SIGTERM");
      const insist = setTimeout(() => child.kill("SIGKILL"), STOP_WITHIN_MS);
      const end = await exited;
      clearTimeout(insist);
      return end;
    },
    kill: async () => {
      child.ref();
      child.kill("SIGKILL");
      return await exited;
    },
  };
}

function describeExit(end: ServerExit): string {
  return end.signal === null ? `exit code ${String(end.code)}` : end.signal;
}

function unavailable(reason: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(
    `the embedded Temporal server did not start: ${reason}`,
    "TEMPORAL_SERVER_UNAVAILABLE",
  );
}
