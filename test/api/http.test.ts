/** The doors of the submit service: how much one sender may ask at once, and what is said of what went wrong. */

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { Agent, request, type Server } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { AuditEntry } from "../../access/audit-log.ts";
import type { Principal } from "../../access/principal.ts";
import { withPrivateUmask } from "../../access/private-files.ts";
import { createDoor, HTTP_LIMITS, type ServiceParts } from "../../api/http.ts";
import { prepareFolder } from "../../api/sockets.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";

const ADA: Principal = { name: "ada", via: "socket", isOwner: true, groups: [] };
let dir = "";
let server: Server | undefined;
let audited: AuditEntry[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-door-"));
  audited = [];
});
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
  rmSync(dir, { recursive: true, force: true });
});
const path = (): string => join(dir, "s.sock");

interface Parts {
  readonly sender?: () => Promise<Principal | string>;
  readonly add?: (entry: AuditEntry) => void;
  readonly fleet?: () => Promise<unknown>;
}

async function open({
  sender = async () => await Promise.resolve(ADA),
  add = (entry) => void audited.push(entry),
  fleet = async () => await Promise.resolve(emptyLedger({ clusters: [], links: [], tenants: [] })),
}: Parts): Promise<void> {
  // No more of the parts is asked by these requests.
  const parts = {
    served: { fleet: "f", client: { fleet } },
    access: () => ({}),
    audit: { add },
    version: "0.0.0",
    limits: HTTP_LIMITS,
  } as unknown as ServiceParts;
  const opened = createDoor({ who: "unknown", fromOf: () => "", senderOf: sender }, parts);
  server = opened;
  await new Promise<void>((resolve) => opened.listen(path(), resolve));
}

const ask = async (): Promise<{ readonly status: number; readonly text: string }> =>
  await new Promise((resolve, reject) => {
    const asking = request({ socketPath: path(), path: "/v1/ledger" }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => (text += part));
      response.once("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
    asking.once("error", reject);
    asking.end();
  });

it("connections of those who have shown a right rest for longer than proxies keep theirs; others do not", async () => {
  const headers = async (): Promise<unknown> =>
    await new Promise((resolve, reject) => {
      const agent = new Agent({ keepAlive: true });
      const asking = request({ socketPath: path(), path: "/v1/ledger", agent }, (response) => {
        response.resume().once("end", () => agent.destroy());
        const { connection, "keep-alive": kept } = response.headers;
        resolve({ connection, kept });
      });
      asking.once("error", reject);
      asking.end();
    });
  await open({});
  expect(await headers()).toEqual({ connection: "keep-alive", kept: "timeout=620" });
  server?.close();
  rmSync(path(), { force: true });
  await open({ sender: async () => await Promise.resolve("no token") });
  expect(await headers()).toEqual({ connection: "close", kept: undefined });
});

it("one sender has twenty requests at once, and as many again once they are answered", async () => {
  const waiting: (() => void)[] = [];
  let allCame = (): void => undefined;
  const came = new Promise<void>((resolve) => (allCame = resolve));
  let isOpen = false;
  const fleet = async (): Promise<unknown> => {
    if (!isOpen)
      await new Promise<void>((resolve) => {
        if (waiting.push(resolve) === HTTP_LIMITS.requests) allCame();
      });
    return emptyLedger({ clusters: [], links: [], tenants: [] });
  };
  await open({ fleet });
  const asked = Array.from({ length: HTTP_LIMITS.requests }, ask);
  await came;
  const { status, text } = await ask();
  expect([status, text]).toEqual([429, expect.stringContaining("20 requests")]);
  expect(audited).toMatchObject([{ who: "ada", act: "GET /v1/ledger", verdict: "refused" }]);
  isOpen = true;
  for (const go of waiting) go();
  expect((await Promise.all(asked)).map((each) => each.status)).toEqual(asked.map(() => 200));
  expect((await ask()).status).toBe(200);
});

it("what is wrong with an issuer's keys is told to the audit alone", async () => {
  const sender = async (): Promise<Principal> =>
    await Promise.reject(new OrbweaverError("NO_CONNECTION", "no route to 10.0.0.7"));
  await open({ sender });
  const { status, text } = await ask();
  expect(status).toBe(401);
  expect(text).toContain("the issuer's keys cannot be had");
  expect(text).not.toContain("10.0.0.7");
  expect(audited).toMatchObject([{ why: expect.stringContaining("10.0.0.7") as string }]);
});

it("a request that is no HTTP is answered, even where the audit cannot be written", async () => {
  const add = (): never => {
    throw new Error("ENOSPC");
  };
  await open({ add });
  const text = await new Promise<string>((resolve, reject) => {
    const socket = connect(path(), () => socket.write("\u0000\r\n\r\n"));
    let answer = "";
    socket.setEncoding("utf8").on("data", (part: string) => (answer += part));
    socket.once("close", () => resolve(answer));
    socket.once("error", reject);
  });
  expect(text).toContain("400 Bad Request");
});

it("the folders of others' sockets can be passed, whatever the umask", () => {
  const folder = join(dir, "run", "orbweaver", "f");
  withPrivateUmask(() => prepareFolder(folder, true));
  const made = [folder, join(dir, "run", "orbweaver"), join(dir, "run")];
  expect(made.map((each) => statSync(each).mode & 0o777)).toEqual([0o755, 0o755, 0o755]);
});

it("a target that is no address is refused, with a line", async () => {
  await open({});
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const asking = request({ socketPath: path(), path: "//[" }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asking.once("error", reject);
    asking.end();
  });
  expect(status).toBe(400);
  expect(audited).toMatchObject([{ act: "GET //[", verdict: "refused" }]);
});
