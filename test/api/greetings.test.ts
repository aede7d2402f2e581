/** Level 1: how many connections one sender may have that are no sessions yet. */

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { Principal } from "../../access/principal.ts";
import { createSessionDoor, type SessionDoor, type SessionParts } from "../../api/sessions.ts";
import { dialRelay } from "../../streams/carry.ts";
import { CLIENT_PATH } from "../../streams/words.ts";

const ADA: Principal = { name: "ada", via: "socket", isOwner: false, groups: [] };
const MOST = 20;
const senderOf = (): Promise<Principal> => Promise.resolve(ADA);
const door = { who: "unknown", fromOf: () => "", senderOf };

let dir = "";
let server: Server;
let sessions: SessionDoor;
let clients: WebSocket[] = [];

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-greetings-"));
  clients = [];
  // No more of the parts is asked before a greeting.
  const parts = {
    access: () => ({}),
    audit: { add: () => undefined },
    limits: { ofSender: MOST, ofAll: 10 * MOST },
  } as unknown as SessionParts;
  sessions = createSessionDoor(parts);
  server = createServer();
  server.on("upgrade", (request, socket, first) => {
    void sessions.take({ request, socket: socket as Socket, first }, door);
  });
  server.listen(join(dir, "door.sock"));
  await once(server, "listening");
});
afterEach(() => {
  for (const client of clients) client.terminate();
  sessions.close();
  server.close();
  rmSync(dir, { recursive: true, force: true });
});

/** The status by which it is answered. */
const dialled = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const client = dialRelay({ socket: join(dir, "door.sock") }, CLIENT_PATH);
    clients.push(client);
    client.once("error", reject);
    client.once("open", () => resolve(101));
    client.once("unexpected-response", (_request, response) => {
      resolve(response.statusCode ?? 0);
      client.on("error", () => undefined);
      client.terminate();
    });
  });

it("are as many as its sessions may be, and one more as soon as one of them has gone", async () => {
  const found = await Promise.all(Array.from({ length: MOST + 1 }, dialled));
  expect(found.filter((status) => status === 101)).toHaveLength(MOST);
  expect(found).toContain(429);
  clients.find(({ readyState }) => readyState === WebSocket.OPEN)?.terminate();
  await expect.poll(dialled).toBe(101);
});

it("are none of those that had gone before it was known who they are", async () => {
  const request = { url: CLIENT_PATH, headers: {} } as IncomingMessage;
  for (let times = 0; times < MOST; times += 1) {
    const socket = new Socket();
    const closed = once(socket, "close");
    socket.destroy();
    await closed;
    await sessions.take({ request, socket, first: Buffer.alloc(0) }, door);
  }
  expect(await dialled()).toBe(101);
});
