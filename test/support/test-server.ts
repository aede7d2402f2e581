/** @file A Temporal server as the tests have it. */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { SEARCH_ATTRIBUTES } from "../../domain/values/search-attributes.ts";
import {
  progressPrinter,
  provideServerBinary,
  startServer,
  type RunningServer,
} from "../../workers/server/index.ts";

/** The program of all servers of a run; on a fresh machine that is minutes of building. */
export const testServerBinary = async (): Promise<string> =>
  (await provideServerBinary({ onProgress: progressPrinter(process.stderr) })).path;

/** With its database and log in a folder, which is made. */
export async function startTestServer(folder: string, binary: string): Promise<RunningServer> {
  mkdirSync(folder, { recursive: true });
  return await startServer({
    binary,
    dbFile: join(folder, "temporal.db"),
    logFile: join(folder, "temporal.log"),
    searchAttributes: SEARCH_ATTRIBUTES,
  });
}
