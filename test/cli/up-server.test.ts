/** @file What lives of a fleet is never forgotten: not by a configured address, not by a lost note, not by `down`. */

import type { Connection, ConnectionOptions } from "@temporalio/client";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { identityOf, ownIdentity } from "../../agent/system/process-identity.ts";
import { livingDatabaseUser, livingServer, noteDatabaseUser } from "../../cli/up/own-server.ts";
import { databaseFileOf } from "../../cli/up/places.ts";
import { provideServer } from "../../cli/up/server.ts";
import type { Io } from "../../cli/terminal/io.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { ConnectionFlags } from "../../workers/connection.ts";
import { readUpState, writeUpState, type UpServer, type UpState } from "../../workers/state.ts";
import { run } from "./run.ts";

// Dead addresses are really tried, but not for the five seconds that a user's server is given. Until the end of this file: what it loads, later ones may have.
const patience = vi.hoisted(() => ({ now: { connectTimeout: 100 } as ConnectionOptions }));
afterAll(() => {
  patience.now = {};
});
vi.mock("@temporalio/client", async (importOriginal) => {
  const real = await importOriginal<typeof import("@temporalio/client")>();
  class Impatient extends real.Connection {
    static override async connect(options?: ConnectionOptions): Promise<Connection> {
      return await super.connect({ ...options, ...patience.now });
    }
  }
  return { ...real, Connection: Impatient };
});

const ADDRESS = "127.0.0.1:20001";
const isolated: ConnectionFlags = { isIsolated: true };

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

function fleetFolder(): { readonly root: string; readonly stateDir: string } {
  const root = mkdtempSync(join(tmpdir(), "orbweaver-up-"));
  const stateDir = join(root, "default");
  mkdirSync(stateDir);
  return { root, stateDir };
}

function serverIn(stateDir: string, identity = ownIdentity()): UpServer {
  return {
    ...identity,
    address: ADDRESS,
    namespace: "default",
    databaseFile: databaseFileOf(stateDir),
    logFile: "log",
  };
}

const gone = (server: UpServer): UpServer => ({ ...server, started: "another process" });

function stateOf(more: Partial<UpState>): UpState {
  return { fleet: "default", fleetFile: "f", workers: [], ...more };
}

const liveWorker = { ...ownIdentity(), role: "fleet", logFile: "log" } as const;

/** As `up` asks; nothing is started, for every case ends before that. */
async function provided(
  stateDir: string,
  former: UpState | undefined,
  more: { readonly flags?: ConnectionFlags; readonly databaseFile?: string } = {},
) {
  const io = { env: {}, cwd: stateDir } as unknown as Io;
  return await provideServer(io, { flags: isolated, stateDir, former, ...more });
}

it("a job is moved by the server of its user's own fleet, whatever fleet it goes to", async () => {
  const { root, stateDir } = fleetFolder();
  await writeUpState(stateDir, stateOf({ server: gone(serverIn(stateDir)) }));
  const { code, stderr } = await run(["move", "j", "--fleet", "us"], {
    env: { ORBWEAVER_STATE_DIR: root },
  });
  expect(code).toBe(4);
  expect(stderr).toContain(`\`orbweaver up\` started at ${ADDRESS} has stopped`);
});

describe("a fleet whose own server lives", () => {
  it.each(["127.0.0.1:1", "prod:7233"])("refuses %s until `down`, naming both", async (address) => {
    const { stateDir } = fleetFolder();
    const state = stateOf({ server: serverIn(stateDir) });
    await expect(
      provided(stateDir, state, { flags: { ...isolated, address } }),
    ).rejects.toMatchObject({
      code: "NOT_ALLOWED",
      message: expect.stringMatching(new RegExp(`${ADDRESS}.*${address}.*orbweaver down`)),
    });
  });

  it.each([ADDRESS, "localhost:20001"])("takes %s for its own", async (address) => {
    const { stateDir } = fleetFolder();
    const server = serverIn(stateDir);
    const found = await provided(stateDir, stateOf({ server }), {
      flags: { ...isolated, address },
    });
    expect(found).toMatchObject({ server, isNew: false, connection: { address: ADDRESS } });
  });

  it("refuses another namespace of it", async () => {
    const { stateDir } = fleetFolder();
    const flags = { ...isolated, address: ADDRESS, namespace: "other" };
    await expect(
      provided(stateDir, stateOf({ server: serverIn(stateDir) }), { flags }),
    ).rejects.toMatchObject({ code: "NOT_ALLOWED", message: expect.stringContaining("other") });
  });

  it("finds it again beside the database when up.json has lost it", async () => {
    const { stateDir } = fleetFolder();
    const server = serverIn(stateDir);
    await noteDatabaseUser(stateDir, server);
    for (const state of [undefined, stateOf({}), stateOf({ server: gone(server) })]) {
      expect(await provided(stateDir, state)).toMatchObject({ server, isNew: false });
    }
  });

  it("keeps its database from every other fleet", async () => {
    const { root, stateDir } = fleetFolder();
    const server = serverIn(stateDir);
    await noteDatabaseUser(stateDir, server);
    const { databaseFile } = server;
    await expect(provided(join(root, "other"), undefined, { databaseFile })).rejects.toMatchObject({
      code: "NOT_ALLOWED",
      message: expect.stringMatching(/20001.*down --fleet default.*--db/),
    });
  });
});

it("a server that ended holds nothing", async () => {
  const { stateDir } = fleetFolder();
  const server = gone(serverIn(stateDir));
  await noteDatabaseUser(stateDir, server);
  expect(livingDatabaseUser(server.databaseFile)).toBeUndefined();
  expect(livingServer(stateDir, stateOf({ server }))).toBeUndefined();
});

it.each<[string, Partial<UpState>, string | undefined]>([
  ["a configured server, and none is named now", { configuredAddress: "prod:1" }, undefined],
  ["a configured server, and another is named", { configuredAddress: "prod:1" }, "prod:2"],
])("workers that live on %s are NOT_ALLOWED", async (_name, more, address) => {
  const { stateDir } = fleetFolder();
  const flags = address === undefined ? isolated : { ...isolated, address };
  const state = stateOf({ ...more, workers: [liveWorker] });
  await expect(provided(stateDir, state, { flags })).rejects.toMatchObject({
    code: "NOT_ALLOWED",
    message: expect.stringMatching(/prod:1.*orbweaver down/),
  });
});

it("an address that does not answer leaves up.json as it was", async () => {
  const { root, stateDir } = fleetFolder();
  await writeUpState(stateDir, stateOf({ server: gone(serverIn(stateDir)), fleetFile: FLEET }));
  const before = readFileSync(join(stateDir, "up.json"), "utf8");
  const { code, stderr } = await run(["up", "--isolated", "--address", "127.0.0.1:1"], {
    env: { ORBWEAVER_STATE_DIR: root },
  });
  expect({ code, stderr }).toMatchObject({ code: 4 });
  expect(stderr).toContain("NO_CONNECTION");
  expect(readFileSync(join(stateDir, "up.json"), "utf8")).toBe(before);
});

const FLEET = join(import.meta.dirname, "../../data/fleets/small.yaml");

it("says when the file has another name for the fleet than commands will need", async () => {
  const { root } = fleetFolder();
  const file = join(root, "walk.yaml");
  writeFileSync(file, `name: walk\n${readFileSync(FLEET, "utf8")}`);
  const up = async (...args: readonly string[]): Promise<string> => {
    const nowhere = ["--isolated", "--address", "127.0.0.1:1"];
    const { stderr } = await run(["up", file, ...args, ...nowhere], {
      env: { ORBWEAVER_STATE_DIR: root },
    });
    return stderr;
  };
  const [asDefault, asItself] = await Promise.all([up(), up("--fleet", "walk")]);
  expect(asDefault).toContain("the file names this fleet walk, but it runs as default");
  expect(asItself).not.toContain("names this fleet");
});

describe("down", () => {
  async function livingProcess(): Promise<{ child: ChildProcess; server: UpServer; root: string }> {
    const { root, stateDir } = fleetFolder();
    const child = spawn("sleep", ["600"], { stdio: "ignore" });
    children.push(child);
    await once(child, "spawn");
    const identity = identityOf(child.pid ?? 0);
    if (identity === undefined) throw new Error("sleep does not run");
    const server = serverIn(stateDir, identity);
    await noteDatabaseUser(stateDir, server);
    return { child, server, root };
  }

  it("stops the server that up.json has lost, and notes what it was", async () => {
    const { child, server, root } = await livingProcess();
    await writeUpState(join(root, "default"), stateOf({}));
    const exited = once(child, "exit");
    const env = { ORBWEAVER_STATE_DIR: root };
    const { code, stdout, stderr } = await run(["down"], { client: { list: none }, env });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "fleet default is down\n" });
    expect(stderr).toContain("temporal server: stopped");
    await exited;
    expect((await readUpState(join(root, "default")))?.server).toEqual(server);
  });

  it.each(["--stop-jobs", "--purge"])(
    "%s stops nothing when the jobs cannot be listed",
    async (flag) => {
      const { child, root } = await livingProcess();
      const client = { list: unreachable };
      const env = { ORBWEAVER_STATE_DIR: root };
      const { code, stdout, stderr } = await run(["down", flag], { client, env });
      expect({ code, stdout }).toEqual({ code: 4, stdout: "" });
      expect(stderr).toContain("nothing was stopped");
      expect(identityOf(child.pid ?? 0)).toBeDefined();
    },
  );
});

async function* none(): AsyncGenerator<never> {
  // No job.
}

async function* unreachable(): AsyncGenerator<never> {
  await Promise.resolve();
  throw new OrbweaverError("NO_CONNECTION", "no Temporal server answers.");
}
