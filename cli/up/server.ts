/**
 * @file The Temporal server of `up`: the configured one, the one that runs already, or a new one on the fleet's database.
 *
 * A server of ours keeps its address over restarts, because agents elsewhere may know it; only when the port is taken
 * by somebody else a new one is drawn.
 */

import { mkdirSync } from "node:fs";
import { identityOf, isAlive } from "../../activities/agent/process-identity.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import { SEARCH_ATTRIBUTES } from "../../domain/search-attributes.ts";
import {
  configuredConnection,
  DEFAULT_NAMESPACE,
  isolatedConnection,
  loadDataConverter,
  resolveConnection,
  type ConnectionConfig,
  type ConnectionFlags,
} from "../../workers/connection.ts";
import {
  progressPrinter,
  provideServerBinary,
  startServer,
  type RunningServer,
} from "../../workers/server/index.ts";
import type { UpServer, UpState } from "../../workers/state.ts";
import type { Io } from "../io.ts";
import { databaseFileOf, logFileOf } from "./places.ts";

export interface ServerWish {
  readonly flags: ConnectionFlags;
  readonly stateDir: string;
  /** What an earlier `up` noted. */
  readonly former: UpState | undefined;
  readonly databaseFile?: string;
  readonly uiPort?: number;
}

export interface ServerFound {
  readonly connection: ConnectionConfig;
  /** Absent when the server is not ours. */
  readonly server?: UpServer;
  readonly isNew: boolean;
}

export async function provideServer(io: Io, wish: ServerWish): Promise<ServerFound> {
  const { flags, stateDir, former } = wish;
  if (configuredConnection(flags, io.env) !== undefined) {
    const place = { env: io.env, cwd: io.cwd, stateDir };
    return { connection: await resolveConnection(flags, place), isNew: false };
  }
  const dataConverter = await loadDataConverter(flags, io);
  const running = former?.server;
  const isNew = running === undefined || !isAlive(running);
  const server = isNew ? await startOurs(io, wish) : running;
  return { connection: { ...connectionOf(server), dataConverter }, server, isNew };
}

function connectionOf({ address, namespace, uiUrl }: UpServer): ConnectionConfig {
  return isolatedConnection({ address, namespace, ...(uiUrl !== undefined && { uiUrl }) });
}

async function startOurs(io: Io, wish: ServerWish): Promise<UpServer> {
  const { stateDir, former } = wish;
  mkdirSync(stateDir, { recursive: true });
  const { path } = await provideServerBinary({
    onProgress: progressPrinter(io.stderr),
    env: io.env,
  });
  const databaseFile =
    wish.databaseFile ?? former?.server?.databaseFile ?? databaseFileOf(stateDir);
  const logFile = logFileOf(stateDir, "temporal");
  const options = {
    binary: path,
    logFile,
    dbFile: databaseFile,
    searchAttributes: SEARCH_ATTRIBUTES,
    detached: true,
    env: io.env,
  };
  const formerPort = portOf(former?.server?.address);
  const uiPort = wish.uiPort ?? portOf(former?.server?.uiUrl);
  const wishedPorts = {
    ...(formerPort !== undefined && { port: formerPort }),
    ...(uiPort !== undefined && { uiPort }),
  };
  const started = await startServer({ ...options, ...wishedPorts }).catch(
    async (error: unknown) => {
      // Somebody else has the port now. A port that the user asked for is not silently replaced.
      if (wish.uiPort !== undefined || Object.keys(wishedPorts).length === 0) throw error;
      return await startServer(options);
    },
  );
  return noteOf(started, { databaseFile, logFile });
}

function noteOf(
  started: RunningServer,
  files: { readonly databaseFile: string; readonly logFile: string },
): UpServer {
  const identity = identityOf(started.pid);
  if (identity === undefined) {
    throw new OrbweaverError(
      "TEMPORAL_SERVER_UNAVAILABLE",
      `the Temporal server ended as soon as it answered; ${files.logFile} says why`,
    );
  }
  return {
    ...identity,
    address: started.address,
    namespace: DEFAULT_NAMESPACE,
    ...(started.uiUrl !== undefined && { uiUrl: started.uiUrl }),
    ...files,
  };
}

function portOf(place: string | undefined): number | undefined {
  const port = /:(\d+)$/.exec(place ?? "")?.[1];
  return port === undefined ? undefined : Number(port);
}
