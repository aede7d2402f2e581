/** @file The relay over real WebSockets: it pairs, copies, bounds what it holds for a slow reader, and takes an end that comes again. */

import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { afterEach, beforeEach, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { carry, dialRelay } from "../../streams/carry.ts";
import { frameBytes, MAX_FRAME_BYTES } from "../../streams/frame.ts";
import { createLink, type Link } from "../../streams/link.ts";
import { createRelay, type Relay, type Side } from "../../streams/relay.ts";

const MAX_BUFFERED = 131_072;
let dir = "";
let server: Server;
let relay: Relay;
let over: string[] = [];
/** The relay's own ends, the newest last. */
let taken: WebSocket[] = [];
/** So many ends are told yet that they are too many at once. */
let refusals = 0;
let pingEveryMs = 60_000;

const socketPath = (): string => join(dir, "relay.sock");

async function serve(): Promise<void> {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_FRAME_BYTES });
  relay = createRelay({
    graceMs: 60_000,
    maxBuffered: MAX_BUFFERED,
    pingEveryMs,
    onOver: (id) => over.push(id),
  });
  server = createServer();
  server.on("upgrade", (request, socket, first) => {
    if (refusals > 0) {
      refusals -= 1;
      socket.end("HTTP/1.1 429 Refused\r\nConnection: close\r\n\r\n");
      return;
    }
    sockets.handleUpgrade(request, socket, first, (end) => {
      end.on("error", () => end.terminate());
      taken.push(end);
      const side: Side = request.url?.endsWith("agent") === true ? "agent" : "client";
      relay.join("one", side, end);
    });
  });
  server.listen(socketPath());
  await once(server, "listening");
}

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-relay-"));
  [over, taken] = [[], []];
  await serve();
});
afterEach(() => {
  relay.close();
  server.close();
  rmSync(dir, { recursive: true, force: true });
});

const dial = (side: Side): WebSocket => dialRelay({ socket: socketPath() }, `/${side}`);

function end(side: Side): {
  readonly link: Link;
  readonly text: () => string;
  readonly close: () => void;
  readonly until: (holds: () => boolean) => Promise<void>;
} {
  let text = "";
  const waiting = new Set<() => void>();
  const look = (): void => {
    for (const each of waiting) each();
  };
  const link = createLink({
    onData: (_channel, bytes, isTaken) => {
      text += bytes.toString();
      isTaken();
      look();
    },
    onEnd: look,
    onRoom: look,
  });
  link.open(0);
  const closed = new AbortController();
  void carry(link, {
    place: () => ({ socket: socketPath() }),
    ...{ path: `/${side}`, graceMs: 60_000, closed: closed.signal, onPaired: look },
  });
  return {
    link,
    text: () => text,
    close: () => closed.abort(),
    until: (holds) =>
      new Promise((resolve) => {
        const each = (): void => {
          if (!holds()) return;
          waiting.delete(each);
          resolve();
        };
        waiting.add(each);
        each();
      }),
  };
}

it("brings both ends together, in either order, and again after each of them, or the relay itself, was cut off", async () => {
  const agent = end("agent");
  const client = end("client");
  let sent = "";
  const say = (text: string): void => {
    sent += text;
    client.link.write(0, Buffer.from(text));
  };
  say("first ");
  await agent.until(() => agent.text() === sent);
  for (const socket of taken) socket.terminate();
  say("second ");
  await agent.until(() => agent.text() === sent);
  relay.close();
  server.close();
  await once(server, "close");
  say("third ");
  await serve();
  await agent.until(() => agent.text() === sent);
  agent.link.write(0, Buffer.from("back"));
  await client.until(() => client.text() === "back");
  client.close();
  agent.close();
});

it("takes an end later that was one of too many at once", async () => {
  refusals = 2;
  const agent = end("agent");
  const client = end("client");
  client.link.write(0, Buffer.from("hello"));
  await agent.until(() => agent.text() === "hello");
  client.close();
  agent.close();
});

it("is over for one end when the other says goodbye", async () => {
  const agent = dial("agent");
  const closed = once(agent, "close");
  await once(agent, "open");
  const client = dial("client");
  await once(client, "message");
  client.close(1_000);
  const [code] = (await closed) as [number];
  expect([code, over]).toEqual([4_000, ["one"]]);
});

it("is over for a reason of any length, of which the close has as much as it can carry", async () => {
  const agent = dial("agent");
  const closed = once(agent, "close");
  await once(agent, "open");
  relay.end("one", { code: "NOT_ALLOWED", message: "ü".repeat(100) });
  const [code, reason] = (await closed) as [number, Buffer];
  expect([code, reason.toString(), over]).toEqual([4_000, "ü".repeat(61), ["one"]]);
});

it("stops reading an end whose other end reads slowly, so that it holds no more than its bound and a message", async () => {
  const agent = dial("agent");
  await once(agent, "open");
  const client = dial("client");
  await Promise.all([once(client, "message"), once(agent, "message")]);
  agent.pause();
  const message = Buffer.alloc(MAX_FRAME_BYTES);
  const atRelay = taken.at(-1);
  const toAgent = taken[0];
  let most = 0;
  for (let sent = 0; sent < 400 && atRelay?.isPaused !== true; sent += 1) {
    await new Promise((resolve) => {
      client.send(message, resolve);
    });
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    most = Math.max(most, toAgent?.bufferedAmount ?? 0);
  }
  expect(atRelay?.isPaused).toBe(true);
  expect(most).toBeLessThan(MAX_BUFFERED + 2 * MAX_FRAME_BYTES);
  const resumed = new Promise<void>((resolve) => {
    const look = setInterval(() => {
      if (atRelay?.isPaused === true) return;
      clearInterval(look);
      resolve();
    }, 5);
  });
  agent.resume();
  await resumed;
  client.terminate();
  agent.terminate();
});

it("takes a place from an end that answers no ping", async () => {
  relay.close();
  server.close();
  await once(server, "close");
  pingEveryMs = 20;
  await serve();
  pingEveryMs = 60_000;
  const gone = new WebSocket(`ws+unix:${socketPath()}:/client`, { autoPong: false });
  gone.on("error", () => undefined);
  const left = once(gone, "close");
  const there = dial("agent");
  await once(there, "open");
  await left;
  expect(there.readyState).toBe(there.OPEN);
  there.terminate();
});

it("queues what it keeps at most once for a relay that reads nothing and says again and again that the other end is there", async () => {
  relay.close();
  server.close();
  await once(server, "close");
  const sockets = new WebSocketServer({ server: (server = createServer()) });
  let dials = 0;
  const again = new Promise<void>((resolve) => {
    sockets.on("connection", (socket) => {
      dials += 1;
      if (dials === 2) return resolve();
      socket.pause();
      for (let pairing = 1; pairing < 20; pairing += 1) {
        socket.send(JSON.stringify({ paired: pairing }));
        socket.send(frameBytes({ kind: "resume", pairing, rows: [] }));
      }
    });
  });
  const closed = new AbortController();
  const link = createLink({
    onData: () => undefined,
    onEnd: () => undefined,
    onRoom: () => undefined,
  });
  for (let channel = 0; channel < 8; channel += 1) {
    link.open(channel);
    while (link.write(channel, Buffer.alloc(65_536)));
  }
  server.listen(socketPath());
  await once(server, "listening");
  const carrying = carry(link, {
    place: () => ({ socket: socketPath() }),
    ...{ path: "/agent", graceMs: 60_000, closed: closed.signal },
  });
  await again;
  closed.abort();
  for (const socket of sockets.clients) socket.terminate();
  await carrying;
  sockets.close();
});

it("cuts off who sends more than a frame at once", async () => {
  const client = dial("client");
  await once(client, "open");
  const closed = once(client, "close");
  client.on("error", () => undefined);
  client.send(Buffer.alloc(MAX_FRAME_BYTES + 1));
  const [code] = (await closed) as [number];
  expect([1_006, 1_009]).toContain(code);
});
