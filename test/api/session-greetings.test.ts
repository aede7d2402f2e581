/** Level 1: a user who asks for sessions and says nothing holds so many connections, and no more. */

import { createServer, type Server } from "node:http";
import type { Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { AuditEntry } from "../../access/audit-log.ts";
import type { Door } from "../../api/door.ts";
import { createSessionDoor, type SessionParts } from "../../api/sessions.ts";
import { CLIENT_PATH } from "../../streams/words.ts";

const MOST = 20;
let server: Server | undefined;
const clients: WebSocket[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.terminate();
  server?.closeAllConnections();
  server?.close();
});

it("beyond its number of sessions a greeting is refused with a line, until one of them has gone; others are not held up", async () => {
  const audited: AuditEntry[] = [];
  const parts = {
    access: () => ({}),
    audit: { add: (entry: AuditEntry) => void audited.push(entry) },
    relays: () => [],
    limits: { ofSender: MOST, ofAll: 400 },
  } as unknown as SessionParts;
  const door: Door = {
    who: "unknown",
    fromOf: () => "",
    senderOf: async ({ headers }) =>
      await Promise.resolve({
        ...{ name: headers.authorization ?? "", via: "socket", isOwner: false, groups: [] },
      }),
  };
  const sessions = createSessionDoor(parts);
  const opened = createServer();
  server = opened;
  opened.on("upgrade", (request, socket: Socket, first: Buffer) => {
    sessions.take({ request, socket, first }, door).catch(() => socket.destroy());
  });
  await new Promise<void>((resolve) => opened.listen(0, "127.0.0.1", resolve));
  const address = opened.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  /** The status with which it is refused; `open` where it is not. */
  const ask = (who: string): Promise<number | "open"> =>
    new Promise((resolve) => {
      const url = `ws://127.0.0.1:${String(port)}${CLIENT_PATH}`;
      const client = new WebSocket(url, { headers: { Authorization: who } });
      clients.push(client);
      client.on("error", () => undefined);
      client.once("open", () => resolve("open"));
      client.once("unexpected-response", (_request, { statusCode = 0 }) => resolve(statusCode));
    });

  const first = await Promise.all(Array.from({ length: MOST }, () => ask("eve")));
  expect(new Set(first)).toEqual(new Set(["open"]));
  expect(await ask("eve")).toBe(429);
  expect(audited).toMatchObject([{ who: "eve", act: "session", verdict: "refused" }]);
  expect(await ask("ada")).toBe("open");
  clients[0]?.terminate();
  await expect.poll(() => ask("eve")).toBe("open");
  sessions.close();
});
