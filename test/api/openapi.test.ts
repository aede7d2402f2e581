/** The OpenAPI document says what the service answers to, no more and no less. */

import { Client, Connection } from "@temporalio/client";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { request, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openAuditLog, readAuditLog, type AuditLog } from "../../access/audit-log.ts";
import { publicKeyText } from "../../access/own-identity.ts";
import { createDoor, HTTP_LIMITS } from "../../api/http.ts";
import { openApiDocument } from "../../api/openapi.ts";
import { ROUTES } from "../../api/routes.ts";
import { folderStore } from "../../api/folders.ts";
import { OrbweaverClient } from "../../client/index.ts";

let dir = "";
let server: Server;
let audit: AuditLog;
const socketPath = (): string => join(dir, "s.sock");

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-api-"));
  // A minute between two lines: no refusal is only counted.
  let nowMs = 0;
  audit = openAuditLog(join(dir, "audit.jsonl"), () => (nowMs += 60_000));
  // Nothing answers there: what is asked here is refused before Temporal is.
  const temporal = new Client({ connection: Connection.lazy({ address: "127.0.0.1:1" }) });
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const identity = { name: "api", file: "", privateKey, publicKey: publicKeyText(publicKey) };
  const stranger = { name: "eve", via: "socket", isOwner: false, groups: [] };
  server = createDoor(
    { who: "eve", fromOf: () => "", senderOf: async () => await Promise.resolve(stranger) },
    {
      served: {
        fleet: "f",
        temporal,
        client: new OrbweaverClient(temporal, { fleet: "f" }),
        signerOf: () => identity,
        ownKeys: () => [],
        ownIdentity: () => identity,
        apiIdentity: () => identity,
        revoked: { has: () => false, add: () => undefined },
      },
      access: () => ({}),
      audit,
      version: "0.0.0",
      limits: HTTP_LIMITS,
      folders: folderStore({ folder: join(dir, "folders") }),
      relays: () => ["unix:/s.sock"],
      sessions: {
        take: async () => await Promise.resolve(),
        review: async () => await Promise.resolve(),
        close: () => undefined,
      },
    },
  );
  await new Promise<void>((resolve) => server.listen(socketPath(), resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  audit.close();
  rmSync(dir, { recursive: true, force: true });
});

const ask = async (method: string, path: string): Promise<{ status: number; body: unknown }> =>
  await new Promise((resolve, reject) => {
    const asking = request({ socketPath: socketPath(), method, path }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => (text += part));
      response.once("end", () =>
        resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as unknown }),
      );
    });
    asking.once("error", reject);
    asking.end();
  });

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: object;
  readonly responses: Readonly<Record<string, object>>;
}
interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

describe("the document", () => {
  it("is served to everybody at the door", async () => {
    const { status, body } = await ask("GET", "/openapi.json");
    expect(status).toBe(200);
    expect(body).toEqual(openApiDocument(ROUTES, "0.0.0"));
    expect((body as Document).openapi).toBe("3.1.0");
  });

  it("has each route once, with its parameters, its body and its refusals", async () => {
    const { paths } = (await ask("GET", "/openapi.json")).body as Document;
    const said = Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => ({ path, method, operation })),
    );
    expect(said.map(({ path, method }) => `${method.toUpperCase()} ${path}`).sort()).toEqual(
      [
        ...ROUTES.map(({ method, path }) => `${method} ${path}`),
        "POST /v1/folders",
        "GET /v1/folders/{hash}",
      ].sort(),
    );
    expect(new Set(said.map(({ operation }) => operation.operationId)).size).toBe(said.length);
    for (const { path, method, operation } of said) {
      const inPath = operation.parameters.filter((each) => each.in === "path");
      expect(inPath.map(({ name }) => `{${name}}`)).toEqual(path.match(/\{\w+\}/g) ?? []);
      expect(operation.requestBody !== undefined).toBe(method === "post");
      expect(Object.keys(operation.responses)).toContain(path.includes("{hash}") ? "404" : "403");
    }
  });

  it("the service answers to each, and refuses a stranger at each with a line in the audit", async () => {
    for (const { method, path, id } of ROUTES) {
      const { status, body } = await ask(method, path.replace(/\{\w+\}/, "train-7"));
      expect([id, status]).toEqual([id, id === "me" ? 200 : 403]);
      if (id !== "me") expect(body).toMatchObject({ error: { code: "NOT_ALLOWED" } });
    }
    const { lines } = readAuditLog(join(dir, "audit.jsonl"));
    const noted = lines.map(({ who, act, verdict }) => `${who} ${act} ${verdict}`);
    for (const { id } of ROUTES) if (id !== "me") expect(noted).toContain(`eve ${id} refused`);
  });

  it("says of parts of folders what the service does with them", async () => {
    const part = `/v1/folders/${"0".repeat(64)}`;
    const { paths } = (await ask("GET", "/openapi.json")).body as Document;
    expect((await ask("POST", "/v1/folders")).status).toBe(403);
    const missing = await new Promise<number>((resolve, reject) => {
      const asking = request({ socketPath: socketPath(), path: part }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      asking.once("error", reject);
      asking.end();
    });
    expect(Object.keys(paths["/v1/folders/{hash}"]?.["get"]?.responses ?? {})).toContain(
      String(missing),
    );
  });

  it.each([
    ["GET", "/v1/nothing", 404],
    ["GET", "/v1/jobs/", 404],
    ["GET", "/v1/jobs/%E0%A4%A", 404],
    ["DELETE", "/v1/jobs/train-7", 405],
    ["GET", "/v1/jobs/train-7/cancel", 405],
  ])("%s %s, which it does not have, is answered with %i", async (method, path, want) => {
    expect((await ask(method, path)).status).toBe(want);
  });
});
