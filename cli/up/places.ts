/** @file The files of `up` in a fleet's state folder. */

import { join } from "node:path";
import { lobbyStoreDir } from "../../activities/store.ts";

/** All folders of stored values: the fleet's and its lobbies'. */
export const storeDirsOf = (stateDir: string): readonly string[] => {
  const store = storeDirOf(stateDir);
  return [store, lobbyStoreDir(store)];
};

/** Measured tables by hash; the fleet's worker reads them. */
export const storeDirOf = (stateDir: string): string => join(stateDir, "store");

/** The server's database: the fleet's whole history. */
export const databaseFileOf = (stateDir: string): string => join(stateDir, "temporal.db");

export const logsDirOf = (stateDir: string): string => join(stateDir, "logs");

export const logFileOf = (stateDir: string, process: string): string =>
  join(logsDirOf(stateDir), `${process.replaceAll(/[^A-Za-z0-9._-]/g, "_")}.log`);

/** The console's archive of the fleet's runs, beside the history database. */
export const archiveDirOf = (stateDir: string): string => join(stateDir, "history.db.runs");
