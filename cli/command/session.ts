/** @file A connection to Temporal for one command, with the client of the fleet that the flags name. */

import type { Client } from "@temporalio/client";
import { OrbweaverClient } from "../../client/index.ts";
import { resolveConnection, startClient, type ConnectionConfig } from "../../workers/connection.ts";
import { fleetStateDir } from "../../workers/state.ts";
import { checkKeys } from "./check-keys.ts";
import { connectionFlags, type ConnectionOptionValues } from "./connection-options.ts";
import type { Io } from "../terminal/io.ts";
import { fleetNamed } from "./fleet-name.ts";

export interface Session {
  readonly fleet: string;
  readonly client: OrbweaverClient;
  /** Temporal's own client below it. */
  readonly temporal: Client;
  readonly connection: ConnectionConfig;
  /** The server is reached and the key is the fleet's. Throws NO_CONNECTION or ENCRYPTION_KEY_MISSING; before, what is more than a read waits. */
  readonly ready: Promise<void>;
  readonly close: () => Promise<void>;
}

export type OpenSession = (values: ConnectionOptionValues, io: Io) => Promise<Session>;

export const openSession: OpenSession = async (values, io) => {
  const fleet = fleetNamed(values, io.env);
  const connection = await connectionFor(values, io);
  const { client, close, ready } = startClient(connection, (opened) => checkKeys(opened, fleet));
  return {
    fleet,
    client: new OrbweaverClient(client, { fleet }),
    temporal: client,
    connection,
    ready,
    close,
  };
};

/** The connection that the flags, the environment or the last `up` of the fleet name. */
export async function connectionFor(
  values: ConnectionOptionValues,
  io: Io,
): Promise<ConnectionConfig> {
  const stateDir = fleetStateDir(io.env, fleetNamed(values, io.env));
  return await resolveConnection(connectionFlags(values), { env: io.env, cwd: io.cwd, stateDir });
}
