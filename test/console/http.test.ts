/** @file Who may look, and how the stream goes on where it was. */

import { request } from "node:http";
import { request as requestSecure } from "node:https";
import { afterEach, describe, expect, it } from "vitest";
import { createHub, KEPT_CHANGES } from "../../console/http/hub.ts";
import {
  plain,
  startHttpConsole,
  type HttpConsole,
  type HttpConsoleOptions,
} from "../../console/http/server.ts";
import type { Message } from "../../page/wire.ts";
import { ownCertificate } from "../support/own-certificate.ts";

const SNAPSHOT: Message = {
  kind: "snapshot",
  facts: { fleet: "f", atMs: 1 },
  changes: {},
  order: [],
};
const DELTA: Message = { kind: "delta", order: ["job-1"] };

let open: HttpConsole | undefined;
const hub = createHub<Message>(() => SNAPSHOT, KEPT_CHANGES);
afterEach(async () => {
  await open?.close();
  open = undefined;
});

async function start(
  rule: { readonly token?: string },
  more: Pick<HttpConsoleOptions, "tls"> = {},
): Promise<number> {
  open = await startHttpConsole({
    host: "127.0.0.1",
    port: 0,
    rule,
    ...more,
    files: new Map([["/", plain(200, "page")]]),
    streams: new Map([["/api/events", (_url, response, seen) => hub.add(response, seen)]]),
    answer: async ({ pathname }) => (pathname === "/api/state" ? plain(200, "state") : undefined),
  });
  return open.port;
}

interface Got {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

/** Until the answer ends, or has these words. */
function get(
  port: number,
  path: string,
  {
    headers = {},
    method = "GET",
    words,
    ca,
  }: { headers?: Record<string, string>; method?: string; words?: string; ca?: string } = {},
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const place = { host: "127.0.0.1", port, path, headers, method };
    const send = ca === undefined ? request : requestSecure;
    const asked = send({ ...place, ...(ca !== undefined && { ca }) }, (response) => {
      let body = "";
      const done = (): void => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
        asked.destroy();
      };
      response.setEncoding("utf8");
      response.on("data", (text: string) => {
        body += text;
        if (words !== undefined && body.includes(words)) done();
      });
      response.on("end", done);
    });
    asked.on("error", reject);
    asked.end();
  });
}

describe("the console over HTTP", () => {
  it("answers its own user under names of this machine alone, with a strict policy", async () => {
    const port = await start({});
    const page = await get(port, "/");
    expect(page.status).toBe(200);
    expect(page.headers["content-security-policy"]).toContain("default-src 'none'");
    expect((await get(port, "/api/state")).body).toBe("state");
    expect((await get(port, "/api/state", { headers: { Host: "evil.example" } })).status).toBe(421);
    expect((await get(port, "/api/state", { method: "POST" })).status).toBe(405);
    expect((await get(port, "/api/none")).status).toBe(404);
  });

  it("asks for the token once, then takes its cookie", async () => {
    const port = await start({ token: "secret" });
    expect((await get(port, "/api/state")).status).toBe(401);
    const wrong = { Authorization: "Bearer other" };
    expect((await get(port, "/api/session", { method: "POST", headers: wrong })).status).toBe(401);
    const right = { Authorization: "Bearer secret" };
    const session = await get(port, "/api/session", { method: "POST", headers: right });
    const [cookie = ""] = session.headers["set-cookie"] ?? [];
    expect(cookie).toContain("HttpOnly; SameSite=Strict");
    expect(cookie).not.toContain("Secure");
    const named = { Cookie: cookie.split(";")[0] ?? "" };
    expect((await get(port, "/api/state", { headers: named })).status).toBe(200);
    const forged = { Cookie: `orbweaver-console=${"0".repeat(64)}` };
    expect((await get(port, "/api/state", { headers: forged })).status).toBe(401);
  });

  const certificate = ownCertificate();
  it.skipIf(certificate === undefined)(
    "takes tokens over HTTPS alone where it has a certificate, and so its cookie (skipped: no openssl to make one with)",
    async () => {
      const port = await start({ token: "secret" }, certificate && { tls: certificate });
      const headers = { Authorization: "Bearer secret" };
      const ca = certificate?.cert ?? "";
      const session = await get(port, "/api/session", { method: "POST", headers, ca });
      expect(session.status).toBe(204);
      const [cookie = ""] = session.headers["set-cookie"] ?? [];
      expect(cookie).toMatch(/; Secure$/);
      const named = { Cookie: cookie.split(";")[0] ?? "" };
      expect((await get(port, "/api/state", { headers: named, ca })).body).toBe("state");
      await expect(get(port, "/api/state", { headers: named })).rejects.toThrow();
    },
  );

  it("sends a snapshot first, and to a browser that comes back only what it missed", async () => {
    const port = await start({});
    const first = await get(port, "/api/events", { words: "snapshot" });
    expect(first.headers["content-type"]).toBe("text/event-stream");
    hub.tell(DELTA, { runId: "run", event: 7 });
    hub.tell({ kind: "delta", order: ["job-2"] }, { runId: "run", event: 7 });
    const seen = { "Last-Event-ID": "run/7.0" };
    const resumed = await get(port, "/api/events", { headers: seen, words: "job-2" });
    expect(resumed.body).not.toContain("snapshot");
    expect(resumed.body).not.toContain("job-1");
    expect(resumed.body).toContain("id: run/7.1");
    const lost = { "Last-Event-ID": "run/1.0" };
    const again = await get(port, "/api/events", { headers: lost, words: "snapshot" });
    expect(again.body).toContain("id: run/7.1");
  });
});
