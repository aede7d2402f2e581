/**
 * @file Starts the one Temporal server that all integration tests share.
 *
 * No server means that the run fails. The user's own Temporal settings are out of reach: a laptop
 * may point at production.
 */
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { SEARCH_ATTRIBUTES } from "../../domain/values/search-attributes.ts";
import { progressPrinter, provideServerBinary, startServer } from "../../workers/server/index.ts";
import type { RunningServer } from "../../workers/server/index.ts";
import { removeFolder } from "./remove-folder.ts";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), "orbweaver-integration-"));
  await hideUserSettings(folder);
  const server = await startFound(folder);
  project.provide("temporalAddress", server.address);
  return async () => {
    await server.stop();
    removeFolder(folder);
  };
}

/** The processes that run the tests inherit this environment. */
async function hideUserSettings(folder: string): Promise<void> {
  for (const name of Object.keys(process.env)) {
    if (name.startsWith("TEMPORAL_")) Reflect.deleteProperty(process.env, name);
  }
  const profile = join(folder, "temporal.toml");
  await writeFile(profile, "");
  process.env["TEMPORAL_CONFIG_FILE"] = profile;
}

async function startFound(folder: string): Promise<RunningServer> {
  const { path } = await provideServerBinary({ onProgress: progressPrinter(process.stderr) });
  return await startServer({
    binary: path,
    dbFile: join(folder, "temporal.db"),
    logFile: join(folder, "temporal.log"),
    searchAttributes: SEARCH_ATTRIBUTES,
  });
}
