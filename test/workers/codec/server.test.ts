/** @file The codec server answers who may ask, in Temporal's protocol, and nobody else. */

import { defaultPayloadConverter, type Payload } from "@temporalio/common";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createConverters } from "../../../workers/codec/converters.ts";
import { newKeyLine } from "../../../workers/codec/key-ring.ts";
import { startCodecServer, type CodecServer } from "../../../workers/codec/server.ts";

const UI = "http://localhost:8233";
const file = path.join(mkdtempSync(path.join(tmpdir(), "orbweaver-codec-server-")), "keys");
writeFileSync(file, newKeyLine(), { mode: 0o600 });
const payloadCodecs = createConverters({ keyFile: file }).client.payloadCodecs ?? [];
const token = "t0ken";

let open: CodecServer;
let guarded: CodecServer;
beforeAll(async () => {
  const common = { host: "127.0.0.1", port: 0, payloadCodecs, origins: [UI] };
  open = await startCodecServer({ ...common, maxBodyBytes: 10_000 });
  guarded = await startCodecServer({ ...common, token });
});
afterAll(async () => {
  await open.close();
  await guarded.close();
});

const json = ({ metadata, data }: Payload): object => ({
  metadata: Object.fromEntries(
    Object.entries(metadata ?? {}).map(([key, value]) => [
      key,
      Buffer.from(value).toString("base64"),
    ]),
  ),
  data: Buffer.from(data ?? []).toString("base64"),
});
const hello = json(defaultPayloadConverter.toPayload({ say: "hello" }));

const ask = (
  server: CodecServer,
  what: string,
  { body, ...init }: Omit<RequestInit, "body"> & { readonly body?: unknown } = {},
): Promise<Response> =>
  fetch(`http://127.0.0.1:${String(server.port)}${what}`, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...init,
  });

it("encodes and decodes as the workers do, for the UI's origin", async () => {
  const headers = { Origin: UI, "X-Namespace": "default", "Content-Type": "application/json" };
  const encoded = (await (
    await ask(open, "/encode", { headers, body: { payloads: [hello] } })
  ).json()) as { payloads: readonly object[] };
  expect(encoded.payloads).toEqual([
    {
      metadata: expect.objectContaining({ "encryption-key-id": expect.any(String) }),
      data: expect.any(String),
    },
  ]);
  const decoded = await ask(open, "/default/decode", { headers, body: encoded });
  expect(decoded.headers.get("Access-Control-Allow-Origin")).toBe(UI);
  expect(decoded.headers.get("Access-Control-Allow-Credentials")).toBe("true");
  expect(await decoded.json()).toEqual({ payloads: [hello] });
});

it("answers a browser's preflight", async () => {
  const preflight = await ask(open, "/decode", {
    method: "OPTIONS",
    headers: { Origin: UI, "Access-Control-Request-Headers": "x-namespace,content-type" },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get("Access-Control-Allow-Headers")).toMatch(/X-Namespace/);
});

it("says that it is healthy", async () => {
  const health = await fetch(`http://127.0.0.1:${String(open.port)}/health`);
  expect(await health.json()).toEqual({ status: "ok" });
});

describe("refuses", () => {
  const body = { payloads: [hello] };
  it.each<[string, string, Parameters<typeof ask>[2], number, RegExp]>([
    [
      "a page of another origin",
      "/decode",
      { body, headers: { Origin: "http://evil" } },
      403,
      /--origin/,
    ],
    [
      "its preflight",
      "/decode",
      { method: "OPTIONS", headers: { Origin: "http://evil" } },
      403,
      /evil/,
    ],
    ["what is no JSON", "/decode", { body: "{" }, 400, /not JSON/],
    ["what are no payloads", "/decode", { body: { payloads: [{ data: "%" }] } }, 400, /payloads/],
    ["too much at once", "/decode", { body: "x".repeat(20_000) }, 413, /10000/],
    ["another place", "/other", { body }, 404, /\/decode/],
    ["another method", "/decode", { method: "PUT", body }, 405, /POST/],
    [
      "what it has no key for",
      "/decode",
      {
        body: {
          payloads: [
            { metadata: { encoding: btoa("binary/encrypted"), "encryption-key-id": btoa("abc") } },
          ],
        },
      },
      400,
      /key abc/,
    ],
  ])("%s", async (_name, where, init, wantStatus, wantMessage) => {
    const response = await ask(open, where, init);
    expect(response.status).toBe(wantStatus);
    expect(await response.json()).toMatchObject({ message: expect.stringMatching(wantMessage) });
    if (wantStatus === 403) expect(response.headers.get("Access-Control-Allow-Origin")).toBeNull();
  });

  it.each<[string, Record<string, string>, number]>([
    ["no token", {}, 401],
    ["a wrong token", { Authorization: "Bearer t0kem" }, 401],
    ["nobody with the token", { Authorization: `Bearer ${token}` }, 200],
  ])("%s", async (_name, headers, want) => {
    expect((await ask(guarded, "/decode", { body, headers })).status).toBe(want);
  });
});

it("a port that is taken is named", async () => {
  const options = { host: "127.0.0.1", port: open.port, payloadCodecs, origins: [] };
  await expect(startCodecServer(options)).rejects.toMatchObject({
    code: "BAD_INPUT",
    message: expect.stringContaining(String(open.port)),
  });
});
