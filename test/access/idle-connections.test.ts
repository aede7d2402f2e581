/** @file Connections on which nothing is under way: kept for longer than proxies keep theirs, and never so many that others find no room. */

import { once } from "node:events";
import type { Server, ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { IDLE_RULE } from "../../access/idle-connections.ts";
import { httpServer, type ListenerOptions } from "../../access/listener.ts";
import { ownCertificate } from "../support/own-certificate.ts";

const closings: (() => void)[] = [];
afterEach(() => {
  for (const close of closings.splice(0)) close();
});

interface Opened {
  readonly server: Server;
  readonly port: number;
  /** Answers to `/later`. */
  readonly open: ServerResponse[];
}

/** Upgrades whatever asks for it. */
async function opened(options: ListenerOptions): Promise<Opened> {
  const { server, ...rest } = await openedPlain(options);
  server.on("upgrade", (_request, socket: Socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
    socket.on("data", (part) => socket.write(part));
    closings.push(() => socket.destroy());
  });
  return { server, ...rest };
}

async function openedPlain(options: ListenerOptions): Promise<Opened> {
  const open: ServerResponse[] = [];
  const server = httpServer(options, (request, response) => {
    if (request.url === "/later") open.push(response);
    else response.end("ok");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return { server, open, port: typeof address === "object" ? (address?.port ?? 0) : 0 };
}

async function connected(port: number, ca?: string): Promise<Socket> {
  const socket =
    ca === undefined
      ? connect({ port, host: "127.0.0.1" })
      : connectTls({ port, host: "127.0.0.1", ca });
  socket.on("error", () => undefined);
  closings.push(() => socket.destroy());
  await once(socket, ca === undefined ? "connect" : "secureConnect");
  return socket;
}

const ask = (socket: Socket, path = "/", more = ""): void =>
  void socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`);

/** Up to the end of its body. */
async function answer(socket: Socket): Promise<string> {
  for (let said = ""; ;) {
    const [part] = (await once(socket, "data")) as [Buffer];
    said += part.toString();
    if (said.includes("\r\nok") || said.includes(" 101 ")) return said;
  }
}

async function answered(socket: Socket): Promise<string> {
  ask(socket);
  return await answer(socket);
}

const within = (keptMs: number, most: number) => ({ idle: { keptMs, most } });

describe("a connection on which nothing is under way", () => {
  it("is kept for longer than proxies keep theirs, and clients are told", async () => {
    expect(IDLE_RULE.keptMs).toBeGreaterThan(600_000);
    const { server, port } = await opened({});
    expect(server.keepAliveTimeout).toBe(IDLE_RULE.keptMs);
    expect(await answered(await connected(port))).toMatch(/\r\nKeep-Alive: timeout=620\r\n/i);
  });

  it("is not taken for one whose head is late", async () => {
    const { server, port } = await opened({ connectionsCheckingInterval: 2 });
    const socket = await connected(port);
    await answered(socket);
    [server.headersTimeout, server.requestTimeout] = [1, 1];
    await new Promise((resolve) => setTimeout(resolve, 50));
    [server.headersTimeout, server.requestTimeout] = [600_000, 600_000];
    expect(await answered(socket)).toContain("200 OK");
  });

  it.each(["plain", "TLS"])(
    "makes room where there are too many, the oldest first: %s",
    async (how) => {
      const tls = how === "TLS" ? ownCertificate() : undefined;
      const { port } = await opened({ tls, ...within(60_000, 2) });
      const sockets: Socket[] = [];
      for (let count = 0; count < 3; count += 1) sockets.push(await connected(port, tls?.cert));
      const [first, second, third] = sockets as [Socket, Socket, Socket];
      await answered(first);
      await answered(second);
      await answered(first);
      const closed = once(second, "close");
      await answered(third);
      await closed;
      expect(await answered(first)).toContain("200 OK");
      expect(await answered(third)).toContain("200 OK");
    },
  );

  it("is none while something is, be it a second request or a connection that speaks otherwise", async () => {
    const { port, open } = await opened(within(60_000, 1));
    const [busy, upgraded] = [await connected(port), await connected(port)];
    // The first of two is answered; the second is under way.
    ask(busy);
    ask(busy, "/later");
    await answer(busy);
    await answered(upgraded);
    ask(upgraded, "/", "Connection: Upgrade\r\nUpgrade: x\r\n");
    await answer(upgraded);
    for (let count = 0; count < 3; count += 1) await answered(await connected(port));
    upgraded.write("\r\nok");
    expect(await answer(upgraded)).toContain("ok");
    open[0]?.end("ok");
    expect(await answer(busy)).toContain("200 OK");
  });

  it("is none while a part of its next request has come, or of the body of the one before", async () => {
    const { port } = await opened(within(60_000, 1));
    const [early, cut] = [await connected(port), await connected(port)];
    await answered(early);
    early.write("GET / HTTP/1.1\r\n");
    cut.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n1");
    await answer(cut);
    for (let count = 0; count < 3; count += 1) await answered(await connected(port));
    early.write("Host: x\r\n\r\n");
    expect(await answer(early)).toContain("200 OK");
    cut.write("2");
    expect(await answered(cut)).toContain("200 OK");
  });
});

it("a server that speaks nothing else answers a request that offers to", async () => {
  const { port } = await openedPlain({});
  const socket = await connected(port);
  ask(socket, "/", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n");
  expect(await answer(socket)).toContain("200 OK");
});
