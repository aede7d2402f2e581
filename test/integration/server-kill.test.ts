/** @file The Temporal server is killed in the middle and started again on its database file: every job goes on. */

import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { SEARCH_ATTRIBUTES } from "../../domain/values/search-attributes.ts";
import {
  provideServerBinary,
  startServer,
  type RunningServer,
} from "../../workers/server/index.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

let folder: string;
let server: RunningServer;
let world: World;

async function boot(port?: number): Promise<RunningServer> {
  const binary = await provideServerBinary({ env: process.env });
  return startServer({
    binary: binary.path,
    dbFile: path.join(folder, "temporal.db"),
    logFile: path.join(folder, "server.log"),
    headless: true,
    searchAttributes: SEARCH_ATTRIBUTES,
    ...(port !== undefined && { port }),
  });
}

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "orbweaver-server-kill-"));
  server = await boot();
  world = await startWorld({ address: server.address, fleetYaml: SMALL_FLEET });
});
afterAll(async () => {
  await world.stop();
  await server.stop();
  removeFolder(folder);
});

it("running, starting and waiting jobs all end, once each, when the server was killed in the middle", async () => {
  const jobs = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      world.orbweaver.submit({
        name: "kill",
        gang: { gpus: 1 + (index % 4) },
        run: { command: ["sh", "-c", "sleep 1.5"] },
      }),
    ),
  );
  await world.until("some run", (ledger) => ledger.leases.size >= 3);
  const port = Number(server.address.split(":")[1]);
  await server.kill();
  server = await boot(port);
  const results = await Promise.all(
    jobs.map(
      ({ jobId }) =>
        world.temporal.workflow.getHandle(jobId).result() as Promise<{ attempts: number }>,
    ),
  );
  expect(results.map((result) => result.attempts)).toEqual(jobs.map(() => 1));
  await world.until(
    "nothing is leased or waiting",
    (ledger) => ledger.leases.size === 0 && ledger.requests.size === 0,
  );
});
