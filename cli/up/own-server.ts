/**
 * @file Finds our running Temporal server of a fleet: the one in `up.json`, else the one that is recorded beside the database.
 *
 * The second record, `<database>.server.json`, keeps two servers from opening one database: it is found even when `up.json` is
 * lost, and when the database of one fleet is given to another with `--db`.
 */

import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { z } from "zod";
import { isAlive } from "../../agent/system/process-identity.ts";
import { upServer, type UpServer, type UpState } from "../../workers/state.ts";
import { databaseFileOf } from "./places.ts";
import { parsedJson } from "../../lib/parsed-json.ts";

export interface DatabaseUser {
  readonly server: UpServer;
  /** State folder of the fleet whose `up` started it. */
  readonly stateDir: string;
}

const databaseUser = z.object({ server: upServer, stateDir: z.string() });

/** The fleet's own server, if it lives. */
export function livingServer(stateDir: string, state: UpState | undefined): UpServer | undefined {
  const noted = state?.server;
  if (noted !== undefined && isAlive(noted)) return noted;
  const user = livingDatabaseUser(noted?.databaseFile ?? databaseFileOf(stateDir));
  return user?.stateDir === resolve(stateDir) ? user.server : undefined;
}

/** Our running server that has the database open, of any fleet. */
export function livingDatabaseUser(databaseFile: string): DatabaseUser | undefined {
  let text: string;
  try {
    text = readFileSync(noteFileOf(databaseFile), "utf8");
  } catch {
    // Without a record, no server of ours has used this file.
    return undefined;
  }
  const parsed = databaseUser.safeParse(parsedJson(text));
  return parsed.success && isAlive(parsed.data.server) ? parsed.data : undefined;
}

export async function noteDatabaseUser(stateDir: string, server: UpServer): Promise<void> {
  const user: DatabaseUser = { server, stateDir: resolve(stateDir) };
  await writeFile(noteFileOf(server.databaseFile), `${JSON.stringify(user, null, 2)}\n`, {
    mode: 0o600,
  });
}

const noteFileOf = (databaseFile: string): string => `${databaseFile}.server.json`;
