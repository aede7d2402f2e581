/** @file Which server is meant: flags over environment over profile over `up`'s own; isolation shuts out the middle two. */

import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ownIdentity } from "../../agent/system/process-identity.ts";
import { codecServerArgs } from "../../cli/up/codec-server.ts";
import { workerSurroundings } from "../../cli/up/worker-environment.ts";
import { newKeyLine } from "../../workers/codec/key-ring.ts";
import {
  configuredConnection,
  isolatedConnection,
  openClient,
  resolveConnection,
  workflowUrl,
  type ConnectionFlags,
} from "../../workers/connection.ts";
import { writeUpState, type UpState } from "../../workers/state.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-connection-"));
const profiles = join(folder, "temporal.toml");
writeFileSync(
  profiles,
  `[profile.default]
address = "file:1"
namespace = "from-file"
[profile.cloud]
address = "ns.acct.tmprl.cloud:7233"
namespace = "ns.acct"
api_key = "secret"
`,
);
writeFileSync(join(folder, "ca.pem"), "CA");
const noFile = { TEMPORAL_CONFIG_FILE: join(folder, "none.toml") };

describe("the address comes from", () => {
  it.each<[string, ConnectionFlags, Record<string, string>, object | undefined]>([
    ["nowhere", {}, noFile, undefined],
    [
      "the profile file",
      {},
      { TEMPORAL_CONFIG_FILE: profiles },
      { address: "file:1", namespace: "from-file", source: "configured" },
    ],
    [
      "the environment before the file",
      {},
      { TEMPORAL_CONFIG_FILE: profiles, TEMPORAL_ADDRESS: "env:1" },
      { address: "env:1", namespace: "from-file" },
    ],
    [
      "a flag before the environment",
      { address: "flag:1" },
      { ...noFile, TEMPORAL_ADDRESS: "env:1" },
      { address: "flag:1", namespace: "default" },
    ],
    [
      "a named profile",
      { profile: "cloud" },
      { TEMPORAL_CONFIG_FILE: profiles },
      {
        options: { address: "ns.acct.tmprl.cloud:7233", apiKey: "secret", tls: true },
        uiUrl: "https://cloud.temporal.io",
      },
    ],
    [
      "flags alone when isolated",
      { isIsolated: true, address: "own:1" },
      { TEMPORAL_CONFIG_FILE: profiles, TEMPORAL_API_KEY: "x" },
      { address: "own:1", namespace: "default", source: "isolated", options: { address: "own:1" } },
    ],
    [
      "nowhere when isolated, whatever is configured",
      { isIsolated: true },
      { TEMPORAL_CONFIG_FILE: profiles, TEMPORAL_ADDRESS: "env:1" },
      undefined,
    ],
  ])("%s", (_name, flags, env, want) => {
    const found = configuredConnection(flags, env);
    if (want === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject(want);
  });

  it("an API key turns TLS on, and --no-tls off again", () => {
    const env = { ...noFile, TEMPORAL_ADDRESS: "a:1", TEMPORAL_API_KEY: "k" };
    expect(configuredConnection({}, env)?.options).toMatchObject({ apiKey: "k", tls: true });
    expect(configuredConnection({ tls: false }, env)?.options.tls).toBe(false);
  });

  it("TLS files are read at once, and a missing one is one clear error", () => {
    const flags = { address: "a:1", tlsCaPath: join(folder, "ca.pem"), tlsServerName: "x" };
    expect(configuredConnection(flags, noFile)?.options.tls).toMatchObject({
      serverNameOverride: "x",
      serverRootCACertificate: new TextEncoder().encode("CA"),
    });
    expect(() => configuredConnection({ ...flags, tlsCaPath: "/none" }, noFile)).toThrow(
      expect.objectContaining({ code: "BAD_INPUT" }),
    );
  });

  it("a profile that does not exist is one clear error", () => {
    expect(() => configuredConnection({ profile: "x" }, noFile)).toThrow(
      expect.objectContaining({ code: "BAD_INPUT", message: expect.stringContaining("'x'") }),
    );
  });
});

it.each(["garbage", "temporal.example", "garbage:"])(
  "the address %s is refused for its missing port",
  (address) => {
    const env = { ...noFile, TEMPORAL_ADDRESS: address };
    expect(() => configuredConnection({}, env)).toThrow(
      expect.objectContaining({
        code: "BAD_INPUT",
        message: expect.stringMatching(/names no port.*:7233/),
      }),
    );
  },
);

describe("the server that `up` started", () => {
  const server = {
    ...ownIdentity(),
    address: "127.0.0.1:20001",
    namespace: "default",
    uiUrl: "http://127.0.0.1:20002",
    databaseFile: "db",
    logFile: "log",
  };
  const state: UpState = { fleet: "default", fleetFile: "f", server, workers: [] };

  async function resolved(up: UpState | undefined, env: Record<string, string> = noFile) {
    const stateDir = mkdtempSync(join(folder, "state-"));
    if (up !== undefined) await writeUpState(stateDir, up);
    return await resolveConnection({}, { env, cwd: folder, stateDir });
  }

  it("is used when nothing is configured, without the user's profile", async () => {
    expect(await resolved(state)).toMatchObject({
      source: "up",
      address: server.address,
      uiUrl: server.uiUrl,
    });
  });

  it("is not used when something is configured", async () => {
    expect(await resolved(state, { ...noFile, TEMPORAL_ADDRESS: "env:1" })).toMatchObject({
      address: "env:1",
    });
  });

  it.each<[string, Record<string, string>, boolean]>([
    ["is used with the keys that `up` was given", {}, true],
    ["also when its address is configured", { TEMPORAL_ADDRESS: server.address }, true],
    ["but another address is another fleet's", { TEMPORAL_ADDRESS: "env:1" }, false],
  ])("%s", async (_name, env, wantEncrypted) => {
    const encryptionKeys = join(folder, "keys");
    writeFileSync(encryptionKeys, newKeyLine(), { mode: 0o600 });
    const { workerPayloads } = await resolved({ ...state, encryptionKeys }, { ...noFile, ...env });
    expect(workerPayloads.isEncrypted).toBe(wantEncrypted);
  });

  it("keys that are named go before noted ones", async () => {
    const env = { ...noFile, ORBWEAVER_ENCRYPTION_KEYS: "none" };
    await expect(
      resolved({ ...state, encryptionKeys: join(folder, "keys") }, env),
    ).rejects.toMatchObject({ code: "BAD_INPUT", message: expect.stringContaining("none") });
  });

  it("is refused with the remedy when it does not run, or was never started", async () => {
    const gone = { ...state, server: { ...server, started: "another process" } };
    for (const up of [gone, undefined]) {
      await expect(resolved(up)).rejects.toMatchObject({
        code: "NO_CONNECTION",
        message: expect.stringContaining("orbweaver up"),
      });
    }
  });
});

describe("payload codecs", () => {
  async function loaded(module: string) {
    const name = `codec-${String(Math.random()).slice(2)}.mjs`;
    writeFileSync(join(folder, name), module);
    const env = { ...noFile, TEMPORAL_ADDRESS: "a:1", ORBWEAVER_CODEC: name };
    return await resolveConnection({}, { env, cwd: folder, stateDir: folder });
  }

  it("of the module that ORBWEAVER_CODEC names come after our own: outermost", async () => {
    const { dataConverter } = await loaded(
      "export const payloadCodecs = [{ encode: async (p) => p, decode: async (p) => p }];",
    );
    expect(dataConverter.payloadCodecs).toHaveLength(3);
  });

  it.each([
    ["a module without codecs", "export const x = 1;"],
    ["codecs that cannot decode", "export const payloadCodecs = [{ encode() {} }];"],
    ["a module that does not load", "syntax error("],
  ])("are refused: %s", async (_name, module) => {
    await expect(loaded(module)).rejects.toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringContaining("codec"),
    });
  });
});

it("a dead address is NO_CONNECTION", async () => {
  const config = isolatedConnection({ address: "127.0.0.1:1", namespace: "default" });
  const impatient = { ...config, options: { ...config.options, connectTimeout: 100 } };
  await expect(openClient(impatient)).rejects.toMatchObject({ code: "NO_CONNECTION" });
});

it("a workflow's page is known where the UI is", () => {
  const config = isolatedConnection({ address: "a:1", namespace: "n s", uiUrl: "http://ui" });
  expect(workflowUrl(config, "a/b")).toBe("http://ui/namespaces/n%20s/workflows/a%2Fb");
  expect(workflowUrl(isolatedConnection({ address: "a:1", namespace: "d" }), "a")).toBeUndefined();
});

describe("workers that `up` starts", () => {
  it("read nothing of the user's with a server of our own", () => {
    const connection = isolatedConnection({ address: "127.0.0.1:2", namespace: "default" });
    const env = { PATH: "/bin", TEMPORAL_ADDRESS: "prod:1", TEMPORAL_API_KEY: "k" };
    expect(workerSurroundings(connection, { flags: {}, env })).toEqual({
      args: ["--isolated", "--address", "127.0.0.1:2", "--namespace", "default"],
      env: { PATH: "/bin" },
    });
  });

  it("are told the absolute path of the keys by their environment", () => {
    const connection = isolatedConnection({ address: "127.0.0.1:2", namespace: "default" });
    const { env } = workerSurroundings(connection, { flags: {}, env: {}, keyFile: "/keys" });
    expect(env).toEqual({ ORBWEAVER_ENCRYPTION_KEYS: "/keys" });
  });

  it("include a codec server for the pages of our own server's UI, and of no other", () => {
    const server = {
      ...ownIdentity(),
      address: "a:1",
      namespace: "n",
      databaseFile: "",
      logFile: "",
    };
    const places = { uiUrl: "http://127.0.0.1:81", codecUrl: "http://127.0.0.1:82" };
    expect(codecServerArgs({ ...server, ...places }, "f")).toEqual([
      "--port",
      "82",
      "--origin",
      "http://127.0.0.1:81,http://localhost:81",
      "--fleet",
      "f",
    ]);
    for (const without of [undefined, server, { ...server, uiUrl: places.uiUrl }])
      expect(codecServerArgs(without, "f")).toBeUndefined();
  });

  it("inherit a configured connection, and flags as environment, so that no key is on a command line", () => {
    const flags = { apiKey: "k", profile: "cloud" };
    const connection = {
      ...isolatedConnection({ address: "prod:1", namespace: "n" }),
      source: "configured" as const,
    };
    expect(workerSurroundings(connection, { flags, env: { PATH: "/bin" } })).toEqual({
      args: [],
      env: { PATH: "/bin", TEMPORAL_API_KEY: "k", TEMPORAL_PROFILE: "cloud" },
    });
  });
});

it("a call that still tries again when its connection is closed ends nothing but itself", async () => {
  let calls = 0;
  const unavailable = createServer().on("stream", (stream, headers) => {
    const isHello = String(headers[":path"]).endsWith("GetSystemInfo");
    if (!isHello) calls += 1;
    // 12: unimplemented, which is a server of long ago; 14: unavailable, which the client tries again.
    const head = { ":status": 200, "content-type": "application/grpc" };
    stream.respond({ ...head, "grpc-status": isHello ? 12 : 14 }, { endStream: true });
  });
  await once(unavailable.listen(0, "127.0.0.1"), "listening");
  const { port } = unavailable.address() as AddressInfo; // it listens on TCP
  const config = await resolveConnection(
    { address: `127.0.0.1:${port}` },
    { env: noFile, cwd: folder, stateDir: folder },
  );
  const { client, close } = await openClient(config);
  const thrown: unknown[] = [];
  const note = (error: unknown): void => void thrown.push(error);
  process.on("uncaughtException", note);
  void client.workflowService.describeNamespace({ namespace: "default" }).catch(() => undefined);
  await expect.poll(() => calls).toBeGreaterThan(0);
  await close();
  // One may be on its way.
  const most = calls + 1;
  // Longer than the longest first pause between two tries.
  await new Promise((resolve) => setTimeout(resolve, 500));
  process.off("uncaughtException", note);
  unavailable.close();
  expect(thrown).toEqual([]);
  expect(calls).toBeLessThanOrEqual(most);
});
