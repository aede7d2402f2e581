/**
 * @file The Temporal server of `up`: the configured one, the one that runs already, or a new one on the fleet's database.
 *
 * Running parts of the fleet stay with their server: another address is refused until `down`, because workers of one fleet on
 * two servers would be two fleets. Our own server keeps its address over restarts, because agents elsewhere may use it; a new
 * port is drawn only when another process has taken the former one.
 */

import { mkdirSync } from "node:fs";
import { basename } from "node:path";
import { PRIVATE_DIR } from "../../access/private-files.ts";
import { identityOf, isAlive } from "../../agent/system/process-identity.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { SEARCH_ATTRIBUTES } from "../../domain/values/search-attributes.ts";
import {
  configuredConnection,
  DEFAULT_NAMESPACE,
  isolatedConnection,
  keyFileOf,
  loadConverters,
  resolveConnection,
  withConverters,
  type ConnectionConfig,
  type ConnectionFlags,
} from "../../workers/connection.ts";
import {
  progressPrinter,
  provideServerBinary,
  startServer,
  type RunningServer,
} from "../../workers/server/index.ts";
import { becomesFree, drawFreePort, LOOPBACK } from "../../workers/server/ports.ts";
import type { UpServer, UpState } from "../../workers/state.ts";
import type { Io } from "../terminal/io.ts";
import { livingDatabaseUser, livingServer, noteDatabaseUser } from "./own-server.ts";
import { databaseFileOf, logFileOf } from "./places.ts";

export interface ServerSettings {
  readonly flags: ConnectionFlags;
  readonly stateDir: string;
  /** The state of an earlier `up`. */
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

export async function provideServer(io: Io, settings: ServerSettings): Promise<ServerFound> {
  const { flags, stateDir, former } = settings;
  const running = livingServer(stateDir, former);
  const configured = configuredConnection(flags, io.env);
  checkSamePlace(configured, settings, running);
  if (configured !== undefined && running === undefined) {
    const place = { env: io.env, cwd: io.cwd, stateDir };
    return { connection: await resolveConnection(flags, place), isNew: false };
  }
  const converters = await loadConverters(flags, io, former?.encryptionKeys);
  const server = running ?? (await startOurs(io, settings));
  const connection = { ...connectionOf(server), ...withConverters(converters) };
  return { connection, server, isNew: running === undefined };
}

/** Throws NOT_ALLOWED when the server or workers of this fleet use another server than the wanted one. */
function checkSamePlace(
  configured: ConnectionConfig | undefined,
  { stateDir, former }: ServerSettings,
  running: UpServer | undefined,
): void {
  const remedy = `Run \`orbweaver down --fleet ${basename(stateDir)}\` first`;
  if (running !== undefined) {
    if (configured === undefined) return;
    if (isSameAddress(configured.address, running.address)) {
      if (configured.namespace === running.namespace) return;
      throw new OrbweaverError(
        "NOT_ALLOWED",
        `the fleet's own Temporal server at ${running.address} runs with namespace ${running.namespace}, and namespace ${configured.namespace} is configured. ${remedy}, or name ${running.namespace}.`,
      );
    }
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `the fleet's own Temporal server runs at ${running.address}, and ${configured.address} is configured. ${remedy}, or unset the configured address (TEMPORAL_ADDRESS, --address, profile).`,
    );
  }
  const workersAt = former?.workers.some(isAlive) === true ? placeOf(former) : undefined;
  const wanted = configured?.address ?? former?.server?.address ?? "a new server here";
  if (workersAt === undefined || isSameAddress(workersAt, wanted)) return;
  throw new OrbweaverError(
    "NOT_ALLOWED",
    `workers of this fleet run here on the Temporal server at ${workersAt}, and ${wanted} is wanted now. ${remedy}, or name ${workersAt} with TEMPORAL_ADDRESS.`,
  );
}

const placeOf = ({ configuredAddress, server }: UpState): string | undefined =>
  configuredAddress ?? server?.address;

function isSameAddress(one: string, other: string): boolean {
  const plain = (address: string): string =>
    address.toLowerCase().replace(/^(localhost|\[::1\]):/, "127.0.0.1:");
  return plain(one) === plain(other);
}

function connectionOf({ address, namespace, uiUrl }: UpServer): ConnectionConfig {
  return isolatedConnection({ address, namespace, ...(uiUrl !== undefined && { uiUrl }) });
}

async function startOurs(io: Io, settings: ServerSettings): Promise<UpServer> {
  const { stateDir, former } = settings;
  mkdirSync(stateDir, { recursive: true, mode: PRIVATE_DIR });
  const databaseFile =
    settings.databaseFile ?? former?.server?.databaseFile ?? databaseFileOf(stateDir);
  const user = livingDatabaseUser(databaseFile);
  if (user !== undefined) {
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `the Temporal server at ${user.server.address} (process ${String(user.server.pid)}) of the fleet in ${user.stateDir} uses ${databaseFile}. Run \`orbweaver down --fleet ${basename(user.stateDir)}\` first, or name another file with --db.`,
    );
  }
  const { path } = await provideServerBinary({
    onProgress: progressPrinter(io.stderr),
    env: io.env,
  });
  const logFile = logFileOf(stateDir, "temporal");
  // Without keys only very large payloads are unreadable in the UI, which does not justify a permanent process.
  const isEncrypted = (keyFileOf(settings.flags, io) ?? former?.encryptionKeys) !== undefined;
  const codecUrl = isEncrypted ? await codecUrlFor(former?.server?.codecUrl) : undefined;
  const options = {
    binary: path,
    logFile,
    dbFile: databaseFile,
    searchAttributes: SEARCH_ATTRIBUTES,
    detached: true,
    ...(codecUrl !== undefined && { uiCodecEndpoint: codecUrl }),
    env: io.env,
  };
  const formerPort = portOf(former?.server?.address);
  const uiPort = settings.uiPort ?? portOf(former?.server?.uiUrl);
  const requestedPorts = {
    ...(formerPort !== undefined && { port: formerPort }),
    ...(uiPort !== undefined && { uiPort }),
  };
  const started = await startServer({ ...options, ...requestedPorts }).catch(
    async (error: unknown) => {
      // Another process has taken the port. A port that the user requested is not replaced.
      if (settings.uiPort !== undefined || Object.keys(requestedPorts).length === 0) throw error;
      return await startServer(options);
    },
  );
  const files = { databaseFile, logFile, ...(codecUrl !== undefined && { codecUrl }) };
  const server = noteOf(started, files);
  await noteDatabaseUser(stateDir, server);
  return server;
}

function noteOf(
  started: RunningServer,
  files: Pick<UpServer, "databaseFile" | "logFile" | "codecUrl">,
): UpServer {
  const identity = identityOf(started.pid);
  if (identity === undefined) {
    throw new OrbweaverError(
      "TEMPORAL_SERVER_UNAVAILABLE",
      `the Temporal server ended right after its first answer; see ${files.logFile}`,
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

/** The UI gets the address of its codec server at its start; the former address is kept, so that open pages still work. */
async function codecUrlFor(former: string | undefined): Promise<string> {
  const port = portOf(former);
  const isFree = port !== undefined && (await becomesFree(port, 0));
  return `http://${LOOPBACK}:${String(isFree ? port : await drawFreePort())}`;
}

export function portOf(place: string | undefined): number | undefined {
  const port = /:(\d+)$/.exec(place ?? "")?.[1];
  return port === undefined ? undefined : Number(port);
}
