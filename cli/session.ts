/** @file A connection to Temporal for the length of one command, with the client of the fleet that the flags name. */

import type { Client } from "@temporalio/client";
import { OrbweaverClient } from "../client/index.ts";
import { OrbweaverError } from "../domain/failure.ts";
import { openClient, resolveConnection, type ConnectionConfig } from "../workers/connection.ts";
import type { Environment } from "../workers/server/environment.ts";
import { fleetStateDir } from "../workers/state.ts";
import { DEFAULT_FLEET, fleetWorkflowId } from "../workflows/messages.ts";
import { connectionFlags, type ConnectionOptionValues } from "./connection-options.ts";
import type { Io } from "./io.ts";
import type { Kit } from "./kit.ts";

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
 * Throws ENCRYPTION_KEY_MISSING when the fleet was started under a key that is not here: what this command writes would be
 * for everybody to read, or for nobody. Any other trouble is for the verb to find and to name.
 */
async function checkKeys(client: Client, fleet: string): Promise<void> {
  try {
    // A description has the memo, decoded.
    await client.withDeadline(Date.now() + CHECK_WITHIN_MS, () =>
      client.workflow.getHandle(fleetWorkflowId(fleet)).describe(),
    );
  } catch (error) {
    if (error instanceof OrbweaverError && error.code === "ENCRYPTION_KEY_MISSING") throw error;
  }
}

const CHECK_WITHIN_MS = 2_000;

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

/** Where a fleet's file has a name for it that is not how verbs find it. */
export function tellOtherName({ say }: Pick<Kit, "say">, fleet: string, inFile: string): void {
  if (inFile === DEFAULT_FLEET || inFile === fleet) return;
  say(
    `the file calls this fleet ${inFile}; it runs as ${fleet}. With --fleet ${inFile}, here and in later commands, it goes by its own name`,
  );
}
