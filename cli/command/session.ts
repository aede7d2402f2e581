/** @file A connection to Temporal for one command, with the client of the fleet that the flags name. */

import type { Client } from "@temporalio/client";
import { OrbweaverClient } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { openClient, resolveConnection, type ConnectionConfig } from "../../workers/connection.ts";
import { fleetStateDir } from "../../workers/state.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { connectionFlags, type ConnectionOptionValues } from "./connection-options.ts";
import type { Io } from "../terminal/io.ts";
import { fleetNamed } from "./fleet-name.ts";

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
  try {
    await checkKeys(client, fleet);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    fleet,
    client: new OrbweaverClient(client, { fleet }),
    temporal: client,
    connection,
    close,
  };
};

/**
 * Throws ENCRYPTION_KEY_MISSING when the fleet was started under a key that is not here: payloads of this command would be readable by
 * everybody, or by nobody. The verb itself finds and reports any other error.
 */
async function checkKeys(client: Client, fleet: string): Promise<void> {
  try {
    // Describing the workflow decodes its memo.
    await client.withDeadline(Date.now() + CHECK_WITHIN_MS, () =>
      client.workflow.getHandle(fleetWorkflowId(fleet)).describe(),
    );
  } catch (error) {
    if (error instanceof OrbweaverError && error.code === "ENCRYPTION_KEY_MISSING") throw error;
  }
}

const CHECK_WITHIN_MS = 2_000;

/** The connection that the flags, the environment or the last `up` of the fleet name. */
export async function connectionFor(
  values: ConnectionOptionValues,
  io: Io,
): Promise<ConnectionConfig> {
  const stateDir = fleetStateDir(io.env, fleetNamed(values, io.env));
  return await resolveConnection(connectionFlags(values), { env: io.env, cwd: io.cwd, stateDir });
}
