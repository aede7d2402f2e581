/** @file What a former release, or a copy, left readable for other users in a fleet's folder is closed when the fleet comes up. */

import { join } from "node:path";
import { closeToOthers } from "../../access/private-files.ts";
import type { UpState } from "../../workers/state.ts";
import { databaseFileOf, logsDirOf, storeDirOf } from "./places.ts";

/** SQLite's files beside a database have its content too. */
const DATABASE_FILES = ["", "-wal", "-shm", ".server.json"];

export function closeState(stateDir: string, former: UpState | undefined): void {
  const database = former?.server?.databaseFile ?? databaseFileOf(stateDir);
  const paths = [
    stateDir,
    storeDirOf(stateDir),
    logsDirOf(stateDir),
    ...["hosts", "jobs"].map((name) => join(stateDir, name)),
    ...DATABASE_FILES.map((end) => `${database}${end}`),
  ];
  for (const path of paths) closeToOthers(path);
}
