import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Connection } from "@temporalio/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  ensureSearchAttributes,
  provideServerBinary,
  startServer,
} from "../../workers/server/index.ts";
import type { RunningServer, StartOptions } from "../../workers/server/index.ts";
import { removeFolder } from "../support/remove-folder.ts";
import { serverAddress } from "../support/server-address.ts";

let folder: string;
let options: StartOptions;
let server: RunningServer | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "orbweaver-server-"));
  const { path } = await provideServerBinary();
  options = {
    binary: path,
    dbFile: join(folder, "state.db"),
    logFile: join(folder, "server.log"),
    searchAttributes: [{ name: "Present", type: "Keyword" }],
    headless: true,
  };
});

afterAll(async () => {
  await server?.kill();
  removeFolder(folder);
});

async function withConnection<T>(
  address: string,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await Connection.connect({ address });
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}

async function customAttributes(address: string): Promise<ReadonlyMap<string, number>> {
  return await withConnection(address, async (connection) => {
    const answer = await connection.operatorService.listSearchAttributes({ namespace: "default" });
    return new Map(Object.entries(answer.customAttributes));
  });
}

test("the shared server has the namespace and the search attributes of jobs", async () => {
  const address = serverAddress();
  const names = await withConnection(address, async (connection) => {
    const answer = await connection.workflowService.describeNamespace({ namespace: "default" });
    return answer.namespaceInfo?.name;
  });
  expect(names).toBe("default");
  expect([...(await customAttributes(address)).keys()]).toEqual(
    expect.arrayContaining(["OrbweaverClass", "OrbweaverTenant", "OrbweaverState"]),
  );
});

test("a server that is killed comes back on the same file and port with what it knew", async () => {
  server = await startServer(options);
  const { address } = server;
  const added = await withConnection(address, (connection) =>
    ensureSearchAttributes(connection, "default", [
      { name: "Present", type: "Keyword" },
      { name: "AddedLater", type: "KeywordList" },
    ]),
  );
  expect(added).toEqual(["AddedLater"]);
  expect(await server.kill()).toEqual({ code: null, signal: "SIGKILL" });

  server = await startServer({ ...options, port: Number(address.split(":")[1]) });
  expect(server.address).toBe(address);
  const names = [...(await customAttributes(address)).keys()].sort();
  expect(names).toEqual(["AddedLater", "Present"]);
  expect(await server.stop()).toEqual({ code: 0, signal: null });
  // Collection can give its free pages back (cli/house/free-space.ts).
  const { default: Database } = await import("libsql");
  const database = new Database(join(folder, "state.db"), { readonly: true });
  expect(database.prepare("PRAGMA auto_vacuum").all()).toEqual([{ auto_vacuum: 2 }]);
  database.close();
});

test("a search attribute of another type is refused by name", async () => {
  server = await startServer(options);
  await withConnection(server.address, async (connection) => {
    await expect(
      ensureSearchAttributes(connection, "default", [{ name: "Present", type: "Int" }]),
    ).rejects.toMatchObject({ type: "SEARCH_ATTRIBUTES_MISSING" });
  });
  await server.stop();
});

test("a port that is taken is refused before anything starts", async () => {
  const port = Number(serverAddress().split(":")[1]);
  await expect(startServer({ ...options, port })).rejects.toMatchObject({
    type: "TEMPORAL_SERVER_UNAVAILABLE",
  });
});
