/**
 * @file Starts the one Temporal server that all integration tests share, and bundles the workflows once.
 *
 * No server means that the run fails. The user's own Temporal settings are out of reach: a laptop
 * may point at production.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DefaultLogger, bundleWorkflowCode } from "@temporalio/worker";
import type { TestProject } from "vitest/node";
import { SEARCH_ATTRIBUTES } from "../../domain/search-attributes.ts";
import { progressPrinter, provideServerBinary, startServer } from "../../workers/server/index.ts";
import type { RunningServer } from "../../workers/server/index.ts";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), "orbweaver-integration-"));
  await hideUserSettings(folder);
  const outcomes = await Promise.allSettled([startFound(folder), bundle(folder)]);
  const [server, bundlePath] = outcomes;
  const tearDown = async (): Promise<void> => {
    if (server.status === "fulfilled") await server.value.stop();
    await rm(folder, { recursive: true, force: true });
  };
  if (server.status === "rejected" || bundlePath.status === "rejected") {
    await tearDown();
    const reasons = outcomes.flatMap((outcome) =>
      outcome.status === "rejected" ? [outcome.reason] : [],
    );
    throw new AggregateError(reasons, reasons.map(String).join("\n"));
  }
  project.provide("temporalAddress", server.value.address);
  project.provide("workflowBundlePath", bundlePath.value);
  return tearDown;
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

async function bundle(folder: string): Promise<string> {
  const workflowsPath = fileURLToPath(new URL("../../workflows/index.ts", import.meta.url));
  const { code } = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger("WARN") });
  const file = join(folder, "workflow-bundle.js");
  await writeFile(file, code);
  return file;
}
