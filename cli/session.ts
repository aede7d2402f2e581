/** @file A connection to Temporal for the length of one command, with the client of the fleet that the flags name. */

import type { Client } from "@temporalio/client";
import { OrbweaverClient } from "../client/index.ts";
import { openClient, resolveConnection, type ConnectionConfig } from "../workers/connection.ts";
import type { Environment } from "../workers/server/environment.ts";
import { fleetStateDir } from "../workers/state.ts";
import { DEFAULT_FLEET } from "../workflows/messages.ts";
import { connectionFlags, type ConnectionOptionValues } from "./connection-options.ts";
import type { Io } from "./io.ts";

export interface Session {
  readonly fleet: string;
  readonly client: OrbweaverClient;
  /** Temporal's own client below it. */
  readonly temporal: Client;
  readonly connection: ConnectionConfig;
  readonly close: () => Promise<void>;
}

export type OpenSession = (values: ConnectionOptionValues, io: Io) => Promise<Session>;

export const openSession: OpenSession = async (values, io) => {
  const fleet = fleetNamed(values, io.env);
  const connection = await connectionFor(values, io);
  const { client, close } = await openClient(connection);
  return {
    fleet,
    client: new OrbweaverClient(client, { fleet }),
    temporal: client,
    connection,
    close,
  };
};

/** Where the flags, the environment or the last `up` of the fleet lead to. */
export async function connectionFor(
  values: ConnectionOptionValues,
  io: Io,
): Promise<ConnectionConfig> {
  const stateDir = fleetStateDir(io.env, fleetNamed(values, io.env));
  return await resolveConnection(connectionFlags(values), { env: io.env, cwd: io.cwd, stateDir });
}

/** The flag, else ORBWEAVER_FLEET, else `default`. */
export function fleetNamed(values: ConnectionOptionValues, env: Environment): string {
  const said = values.fleet ?? env["ORBWEAVER_FLEET"];
  return said === undefined || said === "" ? DEFAULT_FLEET : said;
}
