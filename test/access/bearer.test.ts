/** Which requests pass without a token, by users of one machine. */

import { createServer, request, type Server } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { bearerRefusal, type BearerRule } from "../../access/bearer.ts";
import { loopbackPeerUid } from "../../access/peer-user.ts";
import { isRoot, NOBODY, statusAs } from "../support/as-user.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function listen(rule: BearerRule, host = "127.0.0.1"): Promise<number> {
  const server = createServer((request, response) => {
    response.statusCode = bearerRefusal(request, rule) === undefined ? 200 : 401;
    response.end(String(loopbackPeerUid(request.socket)));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen({ port: 0, host }, resolve));
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

const BEARER = { headers: { Authorization: "Bearer t0ken" } };

describe("without a token", () => {
  it.each([
    ["127.0.0.1", "127.0.0.1"],
    ["::1", "[::1]"],
    ["::", "127.0.0.1"],
    ["0.0.0.0", "127.0.0.1"],
  ])("a service on %s knows its own user at %s", async (host, name) => {
    const port = await listen({}, host);
    const answer = await fetch(`http://${name}:${String(port)}/`);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(String(process.getuid?.()));
  });

  it.runIf(isRoot)("another user of the machine is refused", async () => {
    const port = await listen({});
    expect(await statusAs(NOBODY, `http://127.0.0.1:${String(port)}/`)).toBe(401);
  });

  it.runIf(isRoot)(
    "another user is refused on a dual-stack service, by either way in",
    async () => {
      const port = await listen({}, "::");
      expect(await statusAs(NOBODY, `http://127.0.0.1:${String(port)}/`)).toBe(401);
      expect(await statusAs(NOBODY, `http://[::1]:${String(port)}/`)).toBe(401);
    },
  );

  it("everybody passes where a proxy decides", async () => {
    const port = await listen({ isOpen: true });
    expect((await fetch(`http://127.0.0.1:${String(port)}/`)).status).toBe(200);
  });
});

describe("a page in our own user's browser", () => {
  const PAGE = "https://evil.example";
  const headersOf = (port: number, more: object): object => ({
    headers: { Host: `127.0.0.1:${String(port)}`, ...more },
  });
  const statusOf = (port: number, { headers }: { readonly headers?: object }): Promise<number> =>
    new Promise((resolve, reject) => {
      const asking = request({ port, host: "127.0.0.1", headers: { ...headers } }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      asking.once("error", reject);
      asking.end();
    });

  it("asks nothing without a token, whether it says its origin or has its own name point here", async () => {
    const port = await listen({});
    const own = `http://127.0.0.1:${String(port)}`;
    expect(await statusOf(port, headersOf(port, { Origin: PAGE }))).toBe(401);
    expect(await statusOf(port, headersOf(port, { Origin: "null" }))).toBe(401);
    // A page of another service of this machine is elsewhere, too.
    expect(await statusOf(port, headersOf(port, { Origin: "http://127.0.0.1:1" }))).toBe(401);
    expect(await statusOf(port, headersOf(port, { Host: "evil.example" }))).toBe(401);
    expect(await statusOf(port, headersOf(port, { Host: "127.0.0.1.evil.example" }))).toBe(401);
    const rebound = { Host: "evil.example", Origin: "http://evil.example" };
    expect(await statusOf(port, headersOf(port, rebound))).toBe(401);
    expect(await statusOf(port, headersOf(port, { Origin: own }))).toBe(200);
    expect(await statusOf(port, headersOf(port, { Host: "localhost" }))).toBe(200);
  });

  it("asks where its origin is listed, or where it has the token", async () => {
    const listed = await listen({ origins: ["http://127.0.0.1:8233"] });
    const ui = { Origin: "http://127.0.0.1:8233" };
    expect(await statusOf(listed, headersOf(listed, ui))).toBe(200);
    expect(await statusOf(listed, headersOf(listed, { Origin: PAGE }))).toBe(401);
    const asked = await listen({ token: "t0ken" });
    const shown = { Host: "fleet.example", Origin: PAGE, ...BEARER.headers };
    expect(await statusOf(asked, { headers: shown })).toBe(200);
  });
});

describe("with a token", () => {
  it("it is needed from our own user too, because a proxy here runs as one", async () => {
    const port = await listen({ token: "t0ken" });
    const url = `http://127.0.0.1:${String(port)}/`;
    expect((await fetch(url)).status).toBe(401);
    expect((await fetch(url, { headers: { Authorization: "Bearer other" } })).status).toBe(401);
    expect((await fetch(url, BEARER)).status).toBe(200);
  });

  it.runIf(isRoot)("it is enough for another user", async () => {
    const port = await listen({ token: "t0ken" });
    expect(await statusAs(NOBODY, `http://127.0.0.1:${String(port)}/`, BEARER)).toBe(200);
  });
});

it("a peer that is not on loopback has no user", () => {
  const socket = { localAddress: "10.0.0.1", localPort: 1, remoteAddress: "10.0.0.2" };
  expect(loopbackPeerUid({ ...socket, remotePort: 2, remoteFamily: "IPv4" })).toBeUndefined();
});
