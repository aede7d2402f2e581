/**
 * @file Starts a Temporal server for each of the test files that run at the same time; those that run one after the other share it.
 *
 * No server means that the run fails. The user's own Temporal settings are out of reach: a laptop
 * may point at production.
 */
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { removeFolder } from "./remove-folder.ts";
import { startTestServer, testServerBinary } from "./test-server.ts";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), "orbweaver-integration-"));
  await hideUserSettings(folder);
  const binary = await testServerBinary();
  const servers = await Promise.all(
    Array.from({ length: project.config.maxWorkers }, (_, lane) =>
      startTestServer(join(folder, String(lane)), binary),
    ),
  );
  project.provide(
    "temporalAddresses",
    servers.map(({ address }) => address),
  );
  return async () => {
    await Promise.all(servers.map((server) => server.stop()));
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
